/** Draws the ratios to the bare server as bars and the goals as ticks: plain SVG with colours for light and dark. */
import { goalOf } from './goal.ts'
import { conditionsOf, type Report, type Row, rateText, ratioText } from './report.ts'

const width = 920
const margin = 20
const barsFrom = 300
const barsWidth = 400
const rowHeight = 24
const barHeight = 14
const top = 92

const style = `
  .ground { fill: #ffffff; } text { fill: #1f2328; font: 13px system-ui, sans-serif; }
  .small { fill: #59636e; font-size: 12px; } .head { font-weight: 600; } .title { font-size: 16px; font-weight: 600; }
  .axis { stroke: #d1d9e0; } .bar { fill: #2f6fb3; } .goal { stroke: #b35900; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; } text { fill: #f0f6fc; } .small { fill: #9198a1; }
    .axis { stroke: #3d444d; } .bar { fill: #5a9fe6; } .goal { stroke: #f0a04b; }
  }`

type Line = { readonly heading: string } | { readonly row: Row }

export function drawChart(report: Report): string {
  const groups = report.sections.filter(({ title, rows }) => /^\w+$/.test(title) && rows.length > 0)
  const lines = groups.flatMap(({ title, rows }): Line[] => [{ heading: title }, ...rows.map((row) => ({ row }))])
  const bottom = top + lines.length * rowHeight
  const most = Math.max(1, ...groups.flatMap(({ rows }) => rows.map(({ ratio }) => ratio)))
  const x = (ratio: number) => barsFrom + (ratio / most) * barsWidth
  const height = bottom + 64
  const names = groups.map(({ title }) => title).join(' and ')
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title">`,
    `<title id="title">Requests a second on ${escapeText(names)}, as shares of a bare node:http server</title>`,
    `<style>${style}\n</style>`,
    `<rect class="ground" width="${width}" height="${height}" rx="6"/>`,
    text(margin, 32, 'Requests a second, beside a bare node:http server that sends the same bytes', 'title'),
    text(
      margin,
      54,
      '1 is the bare server itself. Reads of values and writes are in the audit trail, on disk, before they are answered.',
      'small',
    ),
    text(barsFrom - 8, top - 6, 'connections', 'small', 'end'),
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((tick) => [
      `<line class="axis" x1="${x(tick)}" x2="${x(tick)}" y1="${top}" y2="${bottom}"/>`,
      text(x(tick), bottom + 16, String(tick), 'small', 'middle'),
    ]),
    ...lines.flatMap((line, index) => drawLine(line, top + index * rowHeight, x)),
    `<line class="goal" x1="${margin}" x2="${margin}" y1="${bottom + 29}" y2="${bottom + 45}"/>`,
    text(margin + 8, bottom + 42, `goal. ${conditionsOf(report)}`, 'small'),
    '</svg>',
    '',
  ].join('\n')
}

function drawLine(line: Line, y: number, x: (ratio: number) => number): string[] {
  const base = y + rowHeight - 7
  if ('heading' in line) return [text(margin, base, line.heading, 'head')]
  const { name, ratio, perSecond, commitRatio, connections } = line.row
  const barTop = y + (rowHeight - barHeight) / 2
  const goal = goalOf(name)
  const figures = [ratioText(ratio), `${rateText(perSecond)}/s`]
  if (commitRatio !== undefined) figures.push(`${commitRatio.toFixed(1)} × raw commits`)
  return [
    text(margin + 12, base, name),
    text(barsFrom - 8, base, String(connections), 'small', 'end'),
    `<rect class="bar" x="${barsFrom}" y="${barTop}" width="${(x(ratio) - barsFrom).toFixed(1)}" height="${barHeight}" rx="2"/>`,
    ...(goal === undefined
      ? []
      : [`<line class="goal" x1="${x(goal)}" x2="${x(goal)}" y1="${barTop - 3}" y2="${barTop + barHeight + 3}"/>`]),
    text(barsFrom + barsWidth + 12, base, figures.join(' · '), 'small'),
  ]
}

function text(x: number, y: number, content: string, className = '', anchor = ''): string {
  const attributes = [className && ` class="${className}"`, anchor && ` text-anchor="${anchor}"`].join('')
  return `<text x="${x}" y="${y}"${attributes}>${escapeText(content)}</text>`
}

function escapeText(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
