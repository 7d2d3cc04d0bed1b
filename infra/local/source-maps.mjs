import { setSourceMapsSupport } from 'node:module'

// Stack traces of bundled code name our sources. The maps of libraries would take 60 MiB in all.
setSourceMapsSupport(true, { nodeModules: false, generatedCode: false })
