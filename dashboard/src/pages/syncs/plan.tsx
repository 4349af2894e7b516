import type { SyncPlan } from '@coffer/sdk'
import { Fragment } from 'react'
import { plural } from '../../parts/plural.ts'

const shownNames = 200

/** A push by name, never by value. Deletions and problems come first: they are what a person must see. */
export function Plan({ plan }: { readonly plan: SyncPlan }) {
  const reasonOf = new Map(plan.reasons.map(({ name, reason }) => [name, reason]))
  const withReason = plan.conflict.map((name) => {
    const reason = reasonOf.get(name)
    return reason === undefined ? name : `${name} (${reason})`
  })
  const groups = [
    { title: 'cannot be pushed', tone: 'bad', names: plan.problems.map(({ name, problem }) => `${name} ${problem}`) },
    { title: 'deleted', tone: 'bad', names: plan.delete },
    { title: 'left alone', tone: 'warn', names: withReason },
    { title: 'created', tone: '', names: plan.create },
    { title: 'updated', tone: '', names: plan.update },
    { title: 'unchanged', tone: '', names: plan.unchanged },
  ].filter(({ names }) => names.length > 0)
  if (groups.length === 0) return <p className="text-soft">There is nothing to push.</p>
  return (
    <dl className="plan">
      {groups.map(({ title, tone, names }) => (
        <Fragment key={title}>
          <dt className={tone}>
            {names.length.toLocaleString('en')} {title}
          </dt>
          <dd>
            {names.slice(0, shownNames).join(', ')}
            {names.length > shownNames && `, and ${plural(names.length - shownNames, 'more', 'more')}`}
          </dd>
        </Fragment>
      ))}
    </dl>
  )
}
