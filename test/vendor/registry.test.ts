import { expect, test } from 'vitest'
import { mappingFields } from '../../server/src/domain/sync/mapping.ts'
import { announced, providers } from '../../server/src/providers/registry.ts'
import { judges } from './judge.ts'

const listed = [...providers, ...announced]

test('every slug is unique and URL-safe, and no provider is both available and announced', () => {
  const slugs = listed.map(({ slug }) => slug)
  expect(new Set(slugs).size).toBe(slugs.length)
  for (const slug of slugs) expect(slug).toMatch(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/)
})

test('every provider has a name, https links and a valid glyph', () => {
  for (const { name, website, docs, glyph } of listed) {
    expect(name.trim()).not.toBe('')
    for (const address of [website, docs]) expect(URL.parse(address)?.protocol).toBe('https:')
    expect(glyph.text).toMatch(/^.{1,3}$/)
    expect(glyph.colour).toMatch(/^#[0-9a-f]{6}$/)
  }
})

test('every provider names the evidence for its fake', () => {
  expect(Object.keys(judges).sort()).toEqual(providers.map(({ slug }) => slug).sort())
})

test('the forms of every provider are consistent', () => {
  for (const provider of providers) {
    for (const form of [provider.auth, provider.target, [...mappingFields(provider), ...provider.options]]) {
      const ids = form.map(({ id }) => id)
      expect(new Set(ids).size).toBe(ids.length)
      form.forEach(({ id, after = [] }, index) => {
        expect(id).toMatch(/^[a-z][A-Za-z0-9]*$/)
        for (const earlier of after) expect(ids.slice(0, index)).toContain(earlier)
      })
      for (const field of form) {
        if (field.kind !== 'select' || typeof field.options === 'function' || field.defaultValue === undefined) continue
        expect(field.options.map(({ value }) => value)).toContain(field.defaultValue)
      }
    }
    const addresses = provider.auth.filter(({ id }) => /^(address|baseUrl|server|url)$/.test(id))
    for (const address of addresses) expect(address).toMatchObject({ isAddress: true })
    expect(provider.notes.length).toBeGreaterThan(0)
    expect(provider.limits.name.test('')).toBe(false)
    expect(provider.limits.name.flags).not.toMatch(/[gy]/)
  }
})
