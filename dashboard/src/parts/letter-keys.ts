/** Single letters as keys. They can be switched off (WCAG 2.1.4): then speech input cannot trigger them. */
const storageKey = 'coffer-letter-keys'

export const hasLetterKeys = () => localStorage.getItem(storageKey) !== 'off'
export const setLetterKeys = (isOn: boolean) => localStorage.setItem(storageKey, isOn ? 'on' : 'off')

export const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
