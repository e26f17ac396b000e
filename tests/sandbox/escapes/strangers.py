"""Attempts upon processes outside and upon what they listen on: signals, debuggers, memory, sockets of every
kind, and the shared memory and queues that have no path."""

import ctypes
import os
import resource
import signal
import socket

from harness import attempt, call, first_to_work, main

# Seconds for a connection.
CONNECT_S = 1.0


def connected(family, kind, address):
    with socket.socket(family, kind) as one:
        one.settimeout(CONNECT_S)
        one.connect(address)
        one.send(b"order")


# -- processes -------------------------------------------------------------------------------------


@attempt
def a_signal_to_oneself(at):
    """The neighbour that is allowed."""
    os.kill(os.getpid(), 0)


@attempt
def a_signal_to_the_daemon(at):
    os.kill(at.daemon, signal.SIGUSR1)


@attempt
def a_signal_to_a_stranger(at):
    os.kill(at.stranger, signal.SIGUSR1)


@attempt
def a_signal_to_a_thread(at):
    call(131 if os.uname().machine == "aarch64" else 234, at.stranger, at.stranger, signal.SIGUSR1)


@attempt
def a_signal_by_a_descriptor(at):
    signal.pidfd_send_signal(os.pidfd_open(at.stranger), signal.SIGUSR1)


@attempt
def a_queued_signal(at):
    information = bytearray(128)
    information[0] = signal.SIGUSR1
    information[8:12] = (-1 & 0xFFFF_FFFF).to_bytes(4, "little")
    call(138 if os.uname().machine == "aarch64" else 129, at.stranger, signal.SIGUSR1, bytes(information))


@attempt
def a_signal_to_the_group_of_the_daemon(at):
    os.killpg(at.group, signal.SIGUSR1)


@attempt
def a_debugger(at):
    call(117 if os.uname().machine == "aarch64" else 101, 0x4206, at.stranger, 0, 0)  # PTRACE_SEIZE


@attempt
def reading_its_memory(at):
    buffer = ctypes.create_string_buffer(8)
    local = ctypes.addressof(buffer).to_bytes(8, "little") + (8).to_bytes(8, "little")
    remote = at.address.to_bytes(8, "little") + (8).to_bytes(8, "little")
    call(270 if os.uname().machine == "aarch64" else 310, at.stranger, local, 1, remote, 1, 0)


@attempt
def taking_its_descriptor(at):
    call(438, os.pidfd_open(at.stranger), 1, 0)


@attempt
def its_limits(at):
    resource.prlimit(at.stranger, resource.RLIMIT_NOFILE, (64, 64))


@attempt
def its_priority(at):
    os.setpriority(os.PRIO_PROCESS, at.stranger, 19)


@attempt
def its_processors(at):
    os.sched_setaffinity(at.stranger, {0})


@attempt
def its_scheduling(at):
    os.sched_setscheduler(at.stranger, os.SCHED_IDLE, os.sched_param(0))


@attempt
def its_turn_at_the_disk(at):
    call(30 if os.uname().machine == "aarch64" else 251, 1, at.stranger, 3 << 13)


@attempt
def its_chance_to_be_killed(at):
    with open(f"/proc/{at.stranger}/oom_score_adj", "w") as file:
        file.write("1000")


@attempt
def its_shared_memory(at):
    """Of System V, by its number: attached, and removed."""
    address = call(196 if os.uname().machine == "aarch64" else 30, at.segment, 0, 0o10000)
    return "attached" if address else "?"


@attempt
def removing_its_shared_memory(at):
    call(195 if os.uname().machine == "aarch64" else 31, at.segment, 0, 0)


@attempt
def removing_its_queue(at):
    call(187 if os.uname().machine == "aarch64" else 71, at.queue, 0, 0)


@attempt
def removing_its_semaphores(at):
    call(191 if os.uname().machine == "aarch64" else 66, at.semaphores, 0, 0)


@attempt
def removing_its_named_queue(at):
    call(181 if os.uname().machine == "aarch64" else 241, at.named_queue.encode() + b"\0")


# -- sockets ---------------------------------------------------------------------------------------


@attempt
def a_pair_of_sockets(at):
    """The neighbour that is allowed."""
    one, two = socket.socketpair()
    one.send(b"x")
    return two.recv(1) == b"x" and "done"


@attempt
def a_daemon_in_the_home(at):
    connected(socket.AF_UNIX, socket.SOCK_STREAM, at.home_socket)


@attempt
def a_daemon_in_the_workspace(at):
    connected(socket.AF_UNIX, socket.SOCK_STREAM, at.workspace_socket)


@attempt
def a_daemon_in_the_temporary_folder(at):
    connected(socket.AF_UNIX, socket.SOCK_STREAM, at.temporary_socket)


@attempt
def a_daemon_in_run(at):
    connected(socket.AF_UNIX, socket.SOCK_STREAM, at.run_socket)


@attempt
def the_agent_of_ssh(at):
    connected(socket.AF_UNIX, socket.SOCK_STREAM, os.environ.get("SSH_AUTH_SOCK", at.agent_socket))


@attempt
def a_daemon_by_datagram(at):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.sendto(b"order", at.datagram_socket)


@attempt
def a_daemon_by_a_pair_of_datagrams(at):
    one, _two = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"order", at.datagram_socket)


@attempt
def a_daemon_by_a_raw_pair(at):
    """To the kernel a raw UNIX socket is one of datagrams."""
    one, _two = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    one.sendto(b"order", at.datagram_socket)


@attempt
def a_daemon_by_a_pair_of_streams(at):
    one, _two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    first_to_work(
        lambda: one.sendto(b"order", at.home_socket),
        lambda: one.sendmsg([b"order"], [], 0, at.home_socket),
        lambda: one.connect(at.home_socket),
    )


@attempt
def a_daemon_by_a_pair_that_lost_its_other_end(at):
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    two.close()
    one.connect(at.home_socket)


@attempt
def an_abstract_socket(at):
    connected(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + at.abstract)


@attempt
def a_server_on_the_loopback(at):
    connected(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", at.tcp))


@attempt
def a_server_on_the_newer_loopback(at):
    connected(socket.AF_INET6, socket.SOCK_STREAM, ("::1", at.tcp6))


@attempt
def a_datagram_on_the_loopback(at):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"order", ("127.0.0.1", at.udp))


@attempt
def a_public_address(at):
    connected(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80))


@attempt
def a_datagram_to_a_public_address(at):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"order", ("192.0.2.1", 53))


@attempt
def the_machine_outside_by_vsock(at):
    connected(40, socket.SOCK_STREAM, (2, 9999))


@attempt
def settings_of_the_network(at):
    """A link of the machine would be seen here: what netlink shows but for the loopback."""
    return "some" if [name for _number, name in socket.if_nameindex() if name != "lo"] else "none"


@attempt
def events_of_the_kernel(at):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as one:
        one.bind((0, 1))


@attempt
def a_raw_socket(at):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


@attempt
def frames_of_the_network(at):
    socket.socket(17, socket.SOCK_RAW, 0x0300).close()


@attempt
def ciphers_of_the_kernel(at):
    socket.socket(38, socket.SOCK_SEQPACKET).close()


@attempt
def a_server_for_others(at):
    """Allowed where the network is one's own: nobody outside can reach it."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        one.listen()


if __name__ == "__main__":
    main()
