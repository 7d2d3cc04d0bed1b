import { freePort } from '../infra/local/ports.ts'

/** Settings with ports for a whole platform. The usual ones of Temporal may be taken by a platform that another test starts at the same moment. */
export async function platformPorts() {
  const [http, https] = [await freePort(), await freePort()]
  const settings = {
    PLINTH_HTTP_PORT: String(http),
    PLINTH_HTTPS_PORT: String(https),
    PLINTH_TEMPORAL_PORT: String(await freePort()),
    PLINTH_TEMPORAL_UI_PORT: String(await freePort()),
  }
  return { http, https, settings }
}
