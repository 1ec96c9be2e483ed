#!/usr/bin/env python3
"""The programs of the Python clients, and of kcat.

  main.py CLIENT BOOTSTRAP SCOPE CAPABILITY...

CLIENT is confluent, aiokafka, kafka-python or kcat. Prints one line of JSON for each capability.
"""
import asyncio
import importlib
import json
import signal
import sys

import contract
import scenarios


def expired(_signal, _frame):
    raise contract.Broken('no end in %d s' % contract.PATIENCE_S)


async def one(module, bootstrap, scope, capability):
    client = await module.connect(bootstrap)
    try:
        return await scenarios.run(client, '%s-%s' % (scope, capability), capability)
    finally:
        await client.close()


def main():
    name, bootstrap, scope, *capabilities = sys.argv[1:]
    module = importlib.import_module(name.replace('-', '_') + '_client')
    signal.signal(signal.SIGALRM, expired)
    for capability in capabilities:
        signal.alarm(contract.PATIENCE_S)
        try:
            result, detail = 'pass', asyncio.run(one(module, bootstrap, scope, capability)) or ''
        except contract.Lacks as e:
            result, detail = 'none', str(e)
        except Exception as e:  # noqa: BLE001 - whatever goes wrong is the result
            result, detail = 'fail', '%s: %s' % (type(e).__name__, e)
        signal.alarm(0)
        print(json.dumps({'client': module.NAME, 'version': module.version(), 'capability': capability, 'result': result, 'detail': detail}), flush=True)


if __name__ == '__main__':
    main()
