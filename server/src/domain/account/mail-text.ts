/** Composes a mail from paragraphs, as plain text and as HTML. */
import type { MailMessage } from '../../mail.ts'

type Paragraph = string | { readonly label: string; readonly url: string }

export function composeMail(to: string, subject: string, paragraphs: readonly Paragraph[]): MailMessage {
  const html = paragraphs.map((part) =>
    typeof part === 'string' ? asText(part) : `<a href="${asText(part.url)}">${asText(part.label)}</a>`,
  )
  return {
    to,
    subject,
    text: paragraphs.map((part) => (typeof part === 'string' ? part : `${part.label}: ${part.url}`)).join('\n\n'),
    html: [
      '<!doctype html><html lang="en"><body>',
      ...html.map((content) => `<p>${content}</p>`),
      '</body></html>',
    ].join('\n'),
  }
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** Escapes HTML, because names of workspaces and people are free text. */
const asText = (text: string) => text.replace(/[&<>"']/g, (character) => entities[character] ?? '')
