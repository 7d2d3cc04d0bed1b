/** A framework whose build writes a server unless it is set to write static files. */
export interface Framework {
  readonly packageName: string
  /** The folders, as a build leaves them, that show that it wrote a server. */
  readonly serverFolders: readonly string[]
  /** Where a build works before it writes the site. */
  readonly workFolder?: string
  /** A sentence about the setting that makes the build write static files. */
  readonly advice: string
}

const frameworks = [
  {
    packageName: 'next',
    // it builds a server for static files too
    serverFolders: [],
    workFolder: '.next',
    advice: "Next.js writes a server by default: set output: 'export' in next.config, which writes the site to out.",
  },
  {
    packageName: 'nuxt',
    serverFolders: ['.output/server'],
    advice: 'nuxt build writes a server: run nuxt generate in the build script instead.',
  },
  {
    packageName: '@sveltejs/kit',
    serverFolders: ['build/server'],
    workFolder: '.svelte-kit',
    advice:
      'SvelteKit writes static files with its static adapter only: set @sveltejs/adapter-static in vite.config.js (svelte.config.js before SvelteKit 3), and export const prerender = true from src/routes/+layout.js.',
  },
  {
    packageName: 'astro',
    serverFolders: ['dist/server'],
    advice: "Astro wrote a server: remove the adapter, output: 'server' and prerender = false from the project.",
  },
  {
    packageName: '@angular/core',
    serverFolders: [],
    advice:
      'Angular wrote a server: set "outputMode": "static" in angular.json, or remove "server" and "ssr" from it, and set output_dir to the browser folder, such as dist/app/browser.',
  },
  {
    packageName: '@react-router/dev',
    serverFolders: ['build/server'],
    advice: 'React Router writes a server by default: set ssr: false in react-router.config, and output_dir to build/client.',
  },
] as const satisfies readonly Framework[]

export type FrameworkName = (typeof frameworks)[number]['packageName']

export const getFramework = (name: FrameworkName): Framework =>
  frameworks[frameworks.findIndex((one) => one.packageName === name)] as Framework

export const workFolders: readonly string[] = frameworks.flatMap((one) => ('workFolder' in one ? [one.workFolder] : []))

/** The framework that a parsed package.json depends on. */
export function frameworkIn(packageJson: Readonly<Record<string, unknown>>): FrameworkName | undefined {
  const names = new Set([packageJson.dependencies, packageJson.devDependencies].flatMap((list) => Object.keys(Object(list))))
  return frameworks.find(({ packageName }) => names.has(packageName))?.packageName
}
