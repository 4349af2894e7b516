/** 16 px stroke icons. They are decoration: the text or label beside an icon names the action. */
const paths = {
  alert: 'M8 2.5 14.5 13.5h-13zM8 6.5v3.5M8 11.8v.2',
  check: 'm3 8.5 3.5 3.5L13 4.5',
  chevron: 'm4.5 6.5 3.5 3.5 3.5-3.5',
  close: 'm4 4 8 8M12 4l-8 8',
  coffer:
    'M4 3h8a2 2 0 0 1 2 2v6a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2zM8 6a2 2 0 1 1 0 4 2 2 0 0 1 0-4zM8 10v1.5',
  columns: 'M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  download: 'M8 2.5v8M4.5 7.5 8 11l3.5-3.5M3 13.5h10',
  eye: 'M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8zM8 6a2 2 0 1 1 0 4 2 2 0 0 1 0-4z',
  history: 'M2.5 8A5.5 5.5 0 1 0 4 4.2L2.5 5.7M2.5 2.5v3.2h3.2M8 5v3.2l2.2 1.3',
  key: 'M10.5 2a3.5 3.5 0 1 1-2.8 5.6L2.5 12.8v1.7h2v-1.5H6v-1.5h1.5l1.2-1.2M11 5v.2',
  lock: 'M4 7h8v6H4zM6 7V5a2 2 0 0 1 4 0v2',
  menu: 'M2.5 4h11M2.5 8h11M2.5 12h11',
  more: 'M3.5 7.6a.4.4 0 1 1 0 .8.4.4 0 0 1 0-.8zM8 7.6a.4.4 0 1 1 0 .8.4.4 0 0 1 0-.8zM12.5 7.6a.4.4 0 1 1 0 .8.4.4 0 0 1 0-.8z',
  pencil: 'm10.5 3 2.5 2.5-7.5 7.5H3v-2.5z',
  person: 'M8 2.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5zM3 13.5c.5-2.7 2.5-4 5-4s4.5 1.3 5 4',
  plus: 'M8 3v10M3 8h10',
  search: 'M7 3a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM10 10l3.5 3.5',
  share: 'M8 9.5v-7M5 5l3-3 3 3M3.5 8.5v5h9v-5',
  swap: 'M2.5 5.5h10M10 3l2.5 2.5L10 8M13.5 10.5h-10M6 8l-2.5 2.5L6 13',
  trash: 'M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4M6.7 7v4M9.3 7v4',
  undo: 'M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M5.5 4 3 6.5 5.5 9',
} as const

type IconName = keyof typeof paths

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  )
}
