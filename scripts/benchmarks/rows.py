"""What is measured, and how: one function a row of the table.

Each does the same with the subject and its reference and returns the pair. It fails rather than measure
something else: a chunk too few or a wrong stop reason is ``AgentFailed``. The rounds are chosen so that
the whole table takes less than three minutes.
"""

import json
import os
import select
import time
from collections.abc import Callable

from benchmarks.client import DEADLINE_S, Agent
from benchmarks.pairs import SUBJECT, House, Pair, compare

BARE, TICK, ASKER = "bare", "tick", "asker"
IDLE = b'"stopReason"'
CHUNK = b'"agent_message_chunk"'


def start(house: House) -> Pair:
    """From before the process is started until the answer to initialize is read, in ms."""

    def once(name: str) -> float:
        with house.launch(name) as agent:
            agent.initialize()
            return (time.perf_counter_ns() - agent.started) / 1e6

    return compare(BARE, 15, once)


def start_session(house: House) -> Pair:
    """The same, until session/new is answered too, in ms."""

    def once(name: str) -> float:
        with house.launch(name) as agent:
            agent.initialize()
            agent.new_session()
            return (time.perf_counter_ns() - agent.started) / 1e6

    return compare(BARE, 11, once)


def memory_initialized(house: House) -> Pair:
    """Resident memory after initialize, in MiB."""

    def once(name: str) -> float:
        with house.launch(name) as agent:
            agent.initialize()
            return agent.resident_kib() / 1024

    return compare(BARE, 3, once)


def memory_turn(house: House) -> Pair:
    """Resident memory after the first turn, in MiB."""

    def once(name: str) -> float:
        with house.launch(name) as agent:
            agent.initialize()
            agent.turn(agent.new_session(), "bench stream 10 32")
            return agent.resident_kib() / 1024

    return compare(BARE, 3, once)


def idle_sessions(house: House) -> Pair:
    """What each of 1,000 more open sessions costs, in KiB."""
    count = 1000

    def once(name: str) -> float:
        with house.launch(name) as agent:
            agent.initialize()
            agent.new_session()  # what the first one imports is not what a session costs
            before = agent.resident_kib()
            for _ in range(count):
                agent.new_session()
            return max(agent.resident_kib() - before, 1) / count

    return compare(BARE, 1, once)


def _trivial(house: House, in_flight: int, batches: int) -> Pair:
    with house.both(BARE) as agents:

        def once(name: str) -> float:
            agent = agents[name]
            unknown = {"sessionId": "sess_unknown"}
            batch = b"".join(agent.frame("session/close", unknown) for _ in range(in_flight))
            before = agent.cpu_ns()
            for _ in range(batches):
                agent.write(batch)
                answers = agent.drain_until(b"\n", in_flight)
            spent = agent.cpu_ns() - before
            if answers.count(b'"result":{}') != in_flight:
                raise agent.failed(f"answered session/close with {answers[:200]!r}")
            return spent / (batches * in_flight) / 1e3

        for name in agents:
            once(name)  # warm
        return compare(BARE, 7, once)


def trivial_one(house: House) -> Pair:
    """CPU of session/close of an unknown session, one in flight, in us."""
    return _trivial(house, 1, 1500)


def trivial_many(house: House) -> Pair:
    """The same with 64 in flight."""
    return _trivial(house, 64, 150)


def stream(house: House) -> Pair:
    """CPU of one 32-byte delta from the model to the wire, one wake-up each, in us."""
    count = 20_000
    with house.both(TICK) as agents:
        sessions = {name: agent.new_session() for name, agent in agents.items()}

        def once(name: str) -> float:
            agent = agents[name]
            before = agent.cpu_ns()
            told = agent.turn(sessions[name], f"bench stream {count} 32")
            spent = agent.cpu_ns() - before
            if told.count(CHUNK) != count:
                raise agent.failed(f"sent {told.count(CHUNK)} chunks of {count}")
            return spent / count / 1e3

        return compare(TICK, 7, once)


def _answer_asks(agent: Agent, session: str, count: int) -> None:
    """Hold a turn that asks ``count`` times, and allow each time."""
    agent.write(agent.prompt_frame(session, f"bench perm {count}"))
    asked = 0
    while True:
        for line in agent.lines():
            if b'"session/request_permission"' in line:
                ask = json.loads(line)
                asked += 1
                options = ask["params"]["options"]
                chosen = next(o["optionId"] for o in options if o["kind"] == "allow_once")
                outcome = {"outcome": {"outcome": "selected", "optionId": chosen}}
                answer = {"jsonrpc": "2.0", "id": ask["id"], "result": outcome}
                agent.write(json.dumps(answer).encode() + b"\n")
            elif IDLE in line:
                if asked != count or b'"end_turn"' not in line:
                    raise agent.failed(f"asked {asked} times of {count}, then {line[-200:]!r}")
                return


def _asks(house: House, figure: Callable[[int, int, int], float], subject: str = SUBJECT) -> Pair:
    """``figure`` makes one number of how often was asked, the CPU and the wall time in ns."""
    count = 300
    with house.both(BARE, subject) as agents:
        sessions = {name: agent.new_session() for name, agent in agents.items()}

        def once(name: str) -> float:
            agent = agents[name]
            cpu, wall = agent.cpu_ns(), time.perf_counter_ns()
            _answer_asks(agent, sessions[name], count)
            return figure(count, agent.cpu_ns() - cpu, time.perf_counter_ns() - wall)

        return compare(BARE, 5, once)


def asks_rate(house: House) -> Pair:
    """Tool calls that ask, journalled and run, a second. (``bare`` only asks.)"""
    return _asks(house, lambda count, _cpu, wall: count / (wall / 1e9))


def asks_cpu(house: House) -> Pair:
    """CPU of a tool call that asks, is journalled and run, in us. (``bare`` only asks.)"""
    return _asks(house, lambda count, cpu, _wall: cpu / count / 1e3)


def calls_cpu(house: House) -> Pair:
    """CPU of a tool call that does not ask, journalled and run, in us. (``bare`` only shows calls.)"""
    count = 300
    (house.home / "bench.txt").write_text("A line of a small file.\n" * 40)
    with house.both(BARE) as agents:
        sessions = {name: agent.new_session() for name, agent in agents.items()}

        def once(name: str) -> float:
            agent = agents[name]
            before = agent.cpu_ns()
            told = agent.turn(sessions[name], f"bench read {count}")
            spent = agent.cpu_ns() - before
            done = told.count(b'"status":"completed"')
            if done != count:
                raise agent.failed(f"ran {done} calls of {count}")
            return spent / count / 1e3

        return compare(BARE, 5, once)


def ask_cpu(house: House) -> Pair:
    """CPU of an ask by itself, in us: term2's broker and wire, and nothing that stands behind them."""
    return _asks(house, lambda count, cpu, _wall: cpu / count / 1e3, ASKER)


def cancel(house: House) -> Pair:
    """From session/cancel to the idle, no tool running, in us."""
    with house.both(BARE) as agents:
        sessions = {name: agent.new_session() for name, agent in agents.items()}

        def once(name: str) -> float:
            agent, session = agents[name], sessions[name]
            agent.write(agent.prompt_frame(session, "bench hang"))
            agent.drain_until(b'"user_message"')
            # The model's call has to be under way, and the agent asleep. Nothing on the wire tells.
            time.sleep(0.004)
            frame = agent.frame("session/cancel", {"sessionId": session}, request=False)
            asked = time.perf_counter_ns()
            agent.write(frame)
            told = agent.drain_until(IDLE)
            took = time.perf_counter_ns() - asked
            if b'"cancelled"' not in told:
                raise agent.failed(f"ended a cancelled turn with {told[-200:]!r}")
            return took / 1e3

        for name in agents:
            once(name)  # warm
        return compare(BARE, 150, once)


def cancel_flood(house: House) -> Pair:
    """From session/cancel to the idle, inside a flood of deltas, in ms."""
    with house.both(BARE) as agents:
        sessions = {name: agent.new_session() for name, agent in agents.items()}

        def once(name: str) -> float:
            agent, session = agents[name], sessions[name]
            agent.write(agent.prompt_frame(session, "bench flood 32"))
            agent.drain_until(CHUNK, 2000)
            frame = agent.frame("session/cancel", {"sessionId": session}, request=False)
            asked = time.perf_counter_ns()
            agent.write(frame)
            told = agent.drain_until(IDLE)
            took = time.perf_counter_ns() - asked
            if b'"cancelled"' not in told:
                raise agent.failed(f"ended a cancelled turn with {told[-200:]!r}")
            return took / 1e6

        return compare(BARE, 25, once)


def crowd(house: House) -> Pair:
    """CPU of a turn when 200 sessions are prompted at once, 10 chunks each, in us."""
    count = 200
    with house.both(BARE) as agents:
        sessions = {name: [agent.new_session() for _ in range(count)] for name, agent in agents.items()}

        def once(name: str) -> float:
            agent = agents[name]
            frames = b"".join(agent.prompt_frame(s, "bench stream 10 32") for s in sessions[name])
            before = agent.cpu_ns()
            agent.write(frames)
            told = agent.drain_until(IDLE, count)
            spent = agent.cpu_ns() - before
            if told.count(CHUNK) != 10 * count:
                raise agent.failed(f"sent {told.count(CHUNK)} chunks of {10 * count}")
            return spent / count / 1e3

        for name in agents:
            once(name)  # warm
        return compare(BARE, 7, once)


def end(house: House) -> Pair:
    """From the end of standard input to the end of the idle process, in ms."""

    def once(name: str) -> float:
        with house.launch(name) as agent:
            agent.initialize()
            agent.new_session()
            process = os.pidfd_open(agent.process.pid)
            try:
                ended = time.perf_counter_ns()
                agent.close_input()
                gone = select.select([process], [], [], DEADLINE_S)[0]
                took = time.perf_counter_ns() - ended
            finally:
                os.close(process)
            if not gone:
                raise agent.failed("did not end with its input")
            if agent.process.wait() != 0:
                raise agent.failed(f"exited {agent.process.returncode}")
            return took / 1e6

    return compare(BARE, 9, once)
