/** Explains whether somebody may do something. The answer comes from `verdict.ts`; this file adds the reasons. */
import type { ExplainedAction, ExplainQuery, Explanation } from '@coffer/contract/access'
import type { Grant, WorkspacePath } from '@coffer/contract/field'
import { parseAddress } from '../../address-range.ts'
import { invalid } from '../../failure.ts'
import { requireWorkspace, seesProject, seesTeam } from '../access/access.ts'
import { rules } from '../access/permission.ts'
import { grantOf } from '../actor.ts'
import type { WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { ranks } from '../grant.ts'
import { reachesEnvironment, reachesProject, reachesTeam, toScopeSet } from '../scope.ts'
import { type Place, requirePlace } from './place.ts'
import { addressRemark, findPolicyProblem } from './policy.ts'
import { asSentence, describeGrant, describeScope, list, what, where, who } from './sentence.ts'
import { asSubject, requireSubject, type Subject } from './subject.ts'
import { decide, levelOf, type Verdict } from './verdict.ts'

/** A question with all that it names. */
type Question = {
  readonly snapshot: WorkspaceSnapshot
  readonly subject: Subject
  readonly action: ExplainedAction
  readonly place: Place
  readonly ip: string | undefined
  /** The rule of the policy that stands in the way. */
  readonly policyProblem: string | undefined
}

export async function explainAccess(ctx: Context, path: WorkspacePath, query: ExplainQuery): Promise<Explanation> {
  const { snapshot } = await requireWorkspace(ctx, path, 'access:read')
  const { action, ip } = query
  if (ip !== undefined && !parseAddress(ip)) throw invalid('ip', 'is not an IP address.')
  const place = requirePlace(snapshot, query)
  const subject = await requireSubject(ctx, snapshot, query.actor, ip)
  const policyProblem = findPolicyProblem(ctx, snapshot, subject, ip)
  const question: Question = { snapshot, subject, action, place, ip, policyProblem }
  const { refusal } = subject
  const verdict = refusal ? undefined : await decide(asSubject(ctx, subject, ip), snapshot, action, place)
  const allowed = verdict !== undefined && !verdict.failure
  const grant = allowed ? findGrant(question, verdict) : undefined
  return {
    allowed,
    status: refusal?.status ?? verdict?.failure?.status ?? 200,
    actor: subject.shown,
    action,
    teamId: place.team?.id ?? null,
    projectId: place.project?.id ?? null,
    environmentId: place.environment?.id ?? null,
    grant: grant ?? null,
    reasons: [answer(question, verdict, grant), ...facts(question), ...remarks(question, verdict)].map(asSentence),
  }
}

function answer(question: Question, verdict: Verdict | undefined, grant: Grant | undefined): string {
  const { subject, action, place, snapshot } = question
  const { shown, refusal, owner } = subject
  const isAllowed = verdict !== undefined && !verdict.failure
  const start = `${who(shown)} ${isAllowed ? 'may' : 'may not'} ${what(action)}${whereAsked(question, verdict)}`
  if (refusal) return `${start}: ${refusal.because}`
  if (verdict?.failure) return `${start}: ${whyNot(question, verdict.failure)}`
  if (isAllowed && verdict.places.length === 0) return `${start}, but sees none`
  if (rules[action].owner) return `${start}: ${who(owner ?? shown)} owns the workspace`
  const text = grant && `the grant ${describeGrant(snapshot, narrowed(grant, place))}`
  if (!text) return `${start}: its permission and its scope allow it`
  return owner === null ? `${start}: ${text} allows it` : `${start}: it acts for ${who(owner)}, and ${text} allows it`
}

function whereAsked({ action, place }: Question, verdict: Verdict | undefined): string {
  const level = levelOf(action)
  if (level === 'workspace') return ''
  const { team, project, environment } = place
  const counted = level === 'team' ? { ...(team && { team }) } : { ...(project && { project }) }
  const asked = level === 'environment' && environment ? { ...counted, environment } : counted
  if (Object.keys(asked).length > 0 && !isPartly(verdict, asked)) return ` in ${where(asked)}`
  return verdict && verdict.places.length > 0 ? ` in ${list(verdict.places.map(where))}` : ' anywhere'
}

/** True if a project was asked about and the answer names its environments. */
const isPartly = (verdict: Verdict | undefined, { environment }: Place) =>
  !environment && verdict?.places.some((place) => place.environment !== undefined) === true

function whyNot(question: Question, { code, message }: { code: string; message: string }): string {
  const { subject, place, snapshot, policyProblem } = question
  const { shown, grants, owner } = subject
  if (policyProblem) return policyProblem
  if (code === 'readOnly') return 'it is read-only'
  if (code !== 'notFound') return `the response is "${message}"`
  const limit = grantOf(subject.actor.credential)
  const isReached = grants?.some(({ scope }) => reaches(scope, place)) ?? true
  if (limit && isReached) return `its scope is ${describeScope(snapshot, limit.scope)}`
  return `no grant of ${who(owner ?? shown)} reaches it`
}

/** The grants of the actor, and what limits its credential. */
function facts({ subject, snapshot }: Question): string[] {
  const { shown, grants, owner, actor } = subject
  const limit = grantOf(actor.credential)
  const holder = who(owner ?? shown)
  const texts: string[] = []
  if (limit && shown.type !== 'service') {
    const permission = limit.permission === 'read' ? 'read-only' : 'read-write'
    texts.push(`${who(shown)} is ${permission}, and its scope is ${describeScope(snapshot, limit.scope)}`)
  }
  if (owner) texts.push(`${who(shown)} has no rights that ${who(owner)} does not have`)
  const held = grants?.map((grant) => describeGrant(snapshot, grant)) ?? []
  if (held.length > 0) texts.push(`${holder} has the ${held.length > 1 ? 'grants' : 'grant'} ${list(held)}`)
  return texts
}

/** What the answer takes for granted. */
function remarks(question: Question, verdict: Verdict | undefined): string[] {
  const { action, place, subject, snapshot, ip } = question
  const texts: string[] = []
  const level = levelOf(action)
  if (level === 'workspace' && place.team)
    texts.push('This concerns the whole workspace: the place makes no difference')
  if (level === 'project' && place.environment) {
    texts.push('This concerns the whole project: the environment makes no difference')
  }
  if (level !== 'workspace' && !place.team && verdict) texts.push('No place was named: every place was tried')
  if (action === 'secret:update') texts.push('Shared values need the action secret:write')
  const policyRemark = addressRemark(snapshot)
  if (ip === undefined && policyRemark) texts.push(policyRemark)
  const { credential } = subject.actor
  if ('token' in credential && credential.token.allowedIps.length > 0 && ip === undefined) {
    const from = credential.token.allowedIps.join(', ')
    texts.push(`${who(subject.shown)} is accepted from ${from} only: no address was named, so that was not checked`)
  }
  return texts
}

/** At one place a single grant always suffices; at several the first that does at all of them, or else at some. */
function findGrant({ subject, action }: Question, { places }: Verdict): Grant | undefined {
  const { role, whole } = rules[action]
  const sufficient = subject.grants?.filter((grant) => ranks[grant.role] >= ranks[role] && (!whole || grant.scope.all))
  const isAt = (grant: Grant) => (place: Place) => reaches(grant.scope, place)
  return sufficient?.find((grant) => places.every(isAt(grant))) ?? sufficient?.find((grant) => places.some(isAt(grant)))
}

/** Whether the place, or a part of it, is within the scope. */
function reaches(scope: Grant['scope'], { team, project, environment }: Place): boolean {
  const reach = [toScopeSet(scope)]
  if (project && environment) return reachesEnvironment(reach, project, environment)
  if (project) return seesProject(reach, project)
  return team ? seesTeam(reach, team) : true
}

/** The grant with only the part of its scope that the place lies in. */
function narrowed(grant: Grant, { team, project, environment }: Place): Grant {
  const none = { all: false, teams: [], projects: [], environments: [] }
  const reach = [toScopeSet(grant.scope)]
  if (grant.scope.all) return grant
  if (team && reachesTeam(reach, team)) return { ...grant, scope: { ...none, teams: [team.id] } }
  if (project && reachesProject(reach, project)) return { ...grant, scope: { ...none, projects: [project.id] } }
  if (project && environment && reachesEnvironment(reach, project, environment)) {
    return { ...grant, scope: { ...none, environments: [environment.id] } }
  }
  return grant
}
