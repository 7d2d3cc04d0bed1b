import { escapeHtml } from '../../core/html.ts'

export const code = (text: string, kind = '') => `<code${kind && ` class="${kind}"`}>${escapeHtml(text)}</code>`
