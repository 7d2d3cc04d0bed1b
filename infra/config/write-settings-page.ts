import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { settingsPage } from './settings-page.ts'

// `npm run docs`: writes the documentation of the settings.

await writeFile(join(import.meta.dirname, '..', '..', 'docs', 'settings.md'), settingsPage())
