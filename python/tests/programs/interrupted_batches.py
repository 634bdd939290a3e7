"""Batches of jobs that are interrupted at random times: each ends. argv: batches, seed."""

import faulthandler
import random
import signal
import sys
import time

from halfwink.runs.executors import LocalExecutor


class Job:
    def prepare(self):
        return self

    def run(self, control):
        time.sleep(draw.randrange(4) * 0.0002)
        return {}


def interrupt(number, frame):
    raise KeyboardInterrupt


batches, draw = int(sys.argv[1]), random.Random(int(sys.argv[2]))
signal.signal(signal.SIGALRM, interrupt)
# A batch that does not end says where it waits.
faulthandler.dump_traceback_later(120, exit=True)
interrupted = 0
for _ in range(batches):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0001, 0.03))
        shares = (((number, Job()),) for number in range(100))
        for _ in LocalExecutor(2).run(shares, lambda done: None):
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
print(interrupted)
