// The programs of the Node.js clients: main.js CLIENT BOOTSTRAP SCOPE CAPABILITY...
// CLIENT is kafkajs or platformatic. Prints one line of JSON for each capability.
import { setTimeout as sleep } from 'node:timers/promises'

import { Lacks, PATIENCE_MS } from './contract.js'
import { run } from './scenarios.js'

const [name, bootstrap, scope, ...capabilities] = process.argv.slice(2)
const { NAME, VERSION, connect } = await import(`./${name}.js`)

async function late () {
  await sleep(PATIENCE_MS)
  throw new Error(`no end in ${PATIENCE_MS / 1000} s`)
}

// What a client throws where nobody can catch it belongs to the capability that runs.
let astray
process.on('uncaughtException', error => { astray = error })
process.on('unhandledRejection', error => { astray = error })

for (const capability of capabilities) {
  let result = 'pass'
  let detail
  astray = undefined
  try {
    const client = await connect(bootstrap)
    detail = await Promise.race([run(client, `${scope}-${capability}`, capability), late()])
    await client.close()
  } catch (error) {
    result = error instanceof Lacks ? 'none' : 'fail'
    detail = (error.message ?? String(error)).split('\n')[0]
    if (result === 'fail' && process.env.MATRIX_STACKS) {
      console.error(error)
    }
  }
  if (result === 'fail' && astray) {
    detail += ` (and nobody could catch: ${astray.message ?? astray})`
  }
  process.stdout.write(JSON.stringify({ client: NAME, version: VERSION, capability, result, detail: detail ?? '' }) + '\n')
}
process.exit(0)
