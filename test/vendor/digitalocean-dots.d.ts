/** The vendor's client ships sources that do not compile here; tsconfig.json substitutes these types. */
export type Env = { key: string; value: string; scope?: string; type?: string }
export type Component = { name: string; envs?: Env[] }
export type Spec = { name: string; services?: Component[] }
type AppAnswer = { app: { id: string; spec: Spec } }
type AppBuilder = { get(): Promise<AppAnswer>; put(body: { spec: Spec }): Promise<AppAnswer> }
type Client = {
  v2: {
    account: { get(): Promise<{ account: { email: string } }> }
    apps: {
      byApp_Id(id: string): AppBuilder
      get(request: { queryParameters: { perPage?: number; page?: number } }): Promise<{ apps: { id: string }[] }>
    }
  }
}
export class DigitalOceanApiKeyAuthenticationProvider {
  constructor(token: string)
}
export function createDigitalOceanClient(adapter: unknown): Client
