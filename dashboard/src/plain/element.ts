/** Builds elements. Contents are always text nodes, so that nothing a stranger wrote can become markup. */
type Properties<Tag extends keyof HTMLElementTagNameMap> = Partial<
  Omit<HTMLElementTagNameMap[Tag], 'innerHTML' | 'outerHTML'>
>

export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Properties<Tag>,
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const made = Object.assign(document.createElement(tag), properties)
  made.append(...children)
  return made
}

export const paragraph = (...children: readonly (Node | string)[]) => element('p', {}, ...children)

type ButtonKind = 'primary' | 'plain' | 'danger' | 'quiet'

/** Disabled while its work goes on, so that nothing is done twice. */
export function button(label: string, kind: ButtonKind, work: () => unknown): HTMLButtonElement {
  const made = element('button', { type: 'button', className: `button ${kind}`, textContent: label })
  made.addEventListener('click', () => void whileBusy(made, work))
  return made
}

/** The focus stays on a button that is only busy, so it is not disabled in the eyes of the browser. */
export async function whileBusy(control: HTMLElement, work: () => unknown): Promise<void> {
  if (control.ariaBusy === 'true') return
  control.ariaBusy = 'true'
  try {
    await work()
  } finally {
    control.ariaBusy = null
  }
}

/** Names and what they stand for, such as the facts about a link. */
export function facts(...rows: readonly (readonly [name: string, value: Node | string])[]): HTMLElement {
  const cells = rows.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)])
  return element('dl', { className: 'facts' }, ...cells)
}

const format = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })

export const time = (at: string) => element('time', { dateTime: at }, format.format(new Date(at)))
