"""A client process of its own, to be stopped and killed: takes the lease, starts a task, waits for its end.

python api_holder.py ADDRESS STOP_ADDRESS SENTENCE
"""

from __future__ import annotations

import sys

from wardarm.client import Client

with (
    Client(sys.argv[1], sys.argv[2], name="holder") as client,
    client.lease() as lease,
):
    task = client.create_task(lease, instruction=sys.argv[3])
    print(task.task_id, flush=True)
    print(client.follow(task.task_id, lease).state, flush=True)
