"""Ask for something and follow it to its end. Ctrl-C cancels the task.

python examples/02_fetch.py "把桌角的蓝色水杯拿给我" [ADDRESS STOP_ADDRESS]
"""

from __future__ import annotations

import sys
import time

from google.protobuf.timestamp_pb2 import Timestamp
from wardarm.client import ADDRESS, STOP_ADDRESS, Client, Refused
from wardarm.v1 import task_pb2

sentence = sys.argv[1] if len(sys.argv) > 1 else "把桌角的蓝色水杯拿给我"
address, stop_address = sys.argv[2:4] if len(sys.argv) > 3 else (ADDRESS, STOP_ADDRESS)

with Client(address, stop_address, name="example 02") as bedside:
    soon = Timestamp()
    soon.FromNanoseconds(time.time_ns() + 2_000_000_000)  # a request that hangs longer must not move an arm
    try:
        task = bedside.say(sentence, lambda e: print(f"{e.sequence:3d} {e.text_zh}  {e.text_en}"), not_after=soon)
    except Refused as refused:
        print(f"{refused.reason}: {refused.text}")
        raise SystemExit(1) from refused
    print(f"{task.task_id}: {task_pb2.TaskState.Name(task.state)}, {task.text_en}")
    raise SystemExit(0 if task.state == task_pb2.TASK_STATE_DONE else 1)
