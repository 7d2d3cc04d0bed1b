import type { BuildFiles } from '../runner/builder.ts'

interface Project {
  readonly name: string
  readonly files: BuildFiles
  /** The folder that goes live, or the sentence that mends it. */
  readonly expected: RegExp
  /** Whether it does not run on Node 20. */
  readonly needsNewerNode?: boolean
}

const packageOf = (build: string, dependencies: Readonly<Record<string, string>>, rest: object = {}) =>
  JSON.stringify({ name: 'site', version: '1.0.0', private: true, scripts: { build }, dependencies, ...rest })

const react = { react: '19', 'react-dom': '19' }
const page = '<!doctype html><html lang="en"><head><title>Site</title></head><body><h1>Site</h1></body></html>'

const next: BuildFiles = {
  'package.json': packageOf('next build', { next: '16', ...react }),
  'app/layout.jsx': 'export default function Layout({ children }) { return <html lang="en"><body>{children}</body></html> }',
  'app/page.jsx': 'export default function Page() { return <h1>Site</h1> }',
}
const nuxt: BuildFiles = {
  'package.json': packageOf('nuxt build', { nuxt: '4', vue: '3', 'vue-router': '5' }),
  'nuxt.config.ts': "export default defineNuxtConfig({ compatibilityDate: '2026-01-01', telemetry: false })",
  'app/app.vue': '<template><h1>Site</h1></template>',
}
const svelteKit: BuildFiles = {
  'package.json': packageOf(
    'vite build',
    { '@sveltejs/kit': '3', '@sveltejs/vite-plugin-svelte': '7', svelte: '5', vite: '8' },
    { type: 'module' },
  ),
  'vite.config.js': "import { sveltekit } from '@sveltejs/kit/vite'; export default { plugins: [sveltekit()] }",
  'src/app.html': '<!doctype html><html lang="en"><head>%sveltekit.head%</head><body>%sveltekit.body%</body></html>',
  'src/routes/+page.svelte': '<h1>Site</h1>',
}
const svelteKit2: BuildFiles = {
  ...svelteKit,
  'package.json': packageOf(
    'vite build',
    { '@sveltejs/kit': '2', '@sveltejs/adapter-auto': '7', '@sveltejs/vite-plugin-svelte': '6', svelte: '5', vite: '7' },
    { type: 'module' },
  ),
  'svelte.config.js': "import adapter from '@sveltejs/adapter-auto'; export default { kit: { adapter: adapter() } }",
}
const astro: BuildFiles = {
  'package.json': packageOf('astro build', { astro: '7' }, { type: 'module' }),
  'astro.config.mjs': "import { defineConfig } from 'astro/config'; export default defineConfig({})",
  'src/pages/index.astro': page,
}
const angular: BuildFiles = {
  'package.json': packageOf(
    'ng build',
    {
      '@angular/common': '22',
      '@angular/compiler': '22',
      '@angular/core': '22',
      '@angular/platform-browser': '22',
      rxjs: '7',
      tslib: '2',
    },
    { devDependencies: { '@angular/build': '22', '@angular/cli': '22', '@angular/compiler-cli': '22', typescript: '~6.0.0' } },
  ),
  'angular.json': JSON.stringify({
    version: 1,
    projects: {
      app: {
        projectType: 'application',
        root: '',
        sourceRoot: 'src',
        architect: {
          build: { builder: '@angular/build:application', options: { browser: 'src/main.ts', tsConfig: 'tsconfig.json' } },
        },
      },
    },
    cli: { analytics: false },
  }),
  'tsconfig.json': JSON.stringify({
    compilerOptions: { target: 'ES2022', module: 'preserve', moduleResolution: 'bundler', experimentalDecorators: true },
    files: ['src/main.ts'],
  }),
  'src/index.html': '<!doctype html><html lang="en"><head><base href="/"></head><body><app-root></app-root></body></html>',
  'src/main.ts':
    "import { Component } from '@angular/core'; import { bootstrapApplication } from '@angular/platform-browser';\n@Component({ selector: 'app-root', template: '<h1>Site</h1>' }) class App {}\nbootstrapApplication(App)",
}
const gatsby: BuildFiles = {
  'package.json': packageOf('gatsby build', { gatsby: '5', react: '18', 'react-dom': '18' }),
  'gatsby-config.js': 'module.exports = {}',
  'src/pages/index.js': "import * as React from 'react'\nexport default function Page() { return <h1>Site</h1> }",
}
const docusaurus: BuildFiles = {
  'package.json': packageOf('docusaurus build', {
    '@docusaurus/core': '3',
    '@docusaurus/preset-classic': '3',
    '@mdx-js/react': '3',
    ...react,
  }),
  'docusaurus.config.js':
    "module.exports = { title: 'Site', url: 'https://example.org', baseUrl: '/', presets: [['classic', { blog: false, docs: false }]] }",
  'src/pages/index.js': "import React from 'react'\nexport default function Page() { return <h1>Site</h1> }",
}
const vitepress: BuildFiles = {
  'package.json': packageOf('vitepress build docs', { vitepress: '1' }),
  'docs/index.md': '# Site\n',
}
const eleventy: BuildFiles = {
  'package.json': packageOf('eleventy', { '@11ty/eleventy': '3' }),
  'index.njk': page,
}
const vite: BuildFiles = {
  'package.json': packageOf('vite build', { vite: '8' }),
  'index.html': page,
}
const reactRouter: BuildFiles = {
  'package.json': packageOf(
    'react-router build',
    { '@react-router/node': '8.4.0', '@react-router/serve': '8.4.0', 'react-router': '8.4.0', isbot: '5', ...react },
    { type: 'module', devDependencies: { '@react-router/dev': '8.4.0', vite: '8' } },
  ),
  'vite.config.js': "import { reactRouter } from '@react-router/dev/vite'; export default { plugins: [reactRouter()] }",
  'app/root.jsx':
    "import { Outlet, Scripts } from 'react-router'; export default function Root() { return <html lang='en'><body><Outlet /><Scripts /></body></html> }",
  'app/routes.js': "import { index } from '@react-router/dev/routes'; export default [index('home.jsx')]",
  'app/home.jsx': 'export default function Home() { return <h1>Site</h1> }',
}

const hugo: BuildFiles = {
  'hugo.toml': 'baseURL = "https://example.org/"\ntitle = "Site"\n',
  'layouts/index.html': page,
}
const mkdocs: BuildFiles = { 'mkdocs.yml': 'site_name: Site\n', 'docs/index.md': '# Site\n' }

export const projects: readonly Project[] = [
  { name: 'Vite', files: vite, expected: /^live from dist$/ },
  { name: 'Eleventy', files: eleventy, expected: /^live from _site$/ },
  {
    name: 'VitePress',
    files: vitepress,
    expected: /Found docs\/\.vitepress\/dist\/index\.html: set output_dir to docs\/\.vitepress\/dist\.$/,
  },
  { name: 'Astro', files: astro, expected: /^live from dist$/, needsNewerNode: true },
  {
    name: 'Astro with a server adapter',
    files: {
      ...astro,
      'package.json': packageOf('astro build', { astro: '7', '@astrojs/node': '11' }, { type: 'module' }),
      'astro.config.mjs':
        "import { defineConfig } from 'astro/config'; import node from '@astrojs/node'; export default defineConfig({ output: 'server', adapter: node({ mode: 'standalone' }) })",
    },
    expected: /has no index\.html\. Astro wrote a server: remove the adapter/,
  },
  { name: 'Next.js', files: next, expected: /Next\.js writes a server by default: set output: 'export' in next\.config/ },
  {
    name: 'Next.js set to export',
    files: { ...next, 'next.config.mjs': "export default { output: 'export' }" },
    expected: /^live from out$/,
  },
  { name: 'Nuxt', files: nuxt, expected: /nuxt build writes a server: run nuxt generate/ },
  { name: 'SvelteKit', files: svelteKit, expected: /set @sveltejs\/adapter-static in vite\.config\.js/, needsNewerNode: true },
  { name: 'SvelteKit 2', files: svelteKit2, expected: /set @sveltejs\/adapter-static in vite\.config\.js/ },
  {
    name: 'Angular',
    files: angular,
    expected: /dist\/ has no index\.html\. Found dist\/app\/browser\/index\.html/,
    needsNewerNode: true,
  },
  { name: 'React Router', files: reactRouter, expected: /React Router writes a server by default: set ssr: false/ },
  { name: 'Docusaurus', files: docusaurus, expected: /^live from build$/ },
  { name: 'Hugo', files: hugo, expected: /^live from public$/ },
  {
    name: 'Hugo without its theme',
    files: { ...hugo, 'hugo.toml': 'theme = "lost"\n' },
    expected: /the theme of the site is missing; send its files in the folder themes/,
  },
  { name: 'MkDocs', files: mkdocs, expected: /^live from site$/ },
  {
    name: 'MkDocs without its theme',
    files: { ...mkdocs, 'mkdocs.yml': 'site_name: Site\ntheme: material\n' },
    expected: /a theme or plugin of mkdocs\.yml is missing; name its package in a file requirements\.txt/,
  },
  { name: 'Jekyll', files: { '_config.yml': 'title: Site\n', 'index.md': '# Site\n' }, expected: /this is a site of Jekyll/ },
  { name: 'Zola', files: { 'config.toml': 'base_url = "/"\n', 'content/a.md': '' }, expected: /this is a site of Zola/ },
  // one of its packages fetches a library from github.com, which not every server reaches
  { name: 'Gatsby', files: gatsby, expected: /^live from public$|it tried to reach what builds may not, see the lines/ },
]
