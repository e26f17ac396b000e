"""Real attempts to get out, each by its name, in each sandbox and as two users: oneself and an ordinary user
that is made for it. The programs of attempts are in ``escapes``, with the stage on which they are made; a
whole stage is run once for each sandbox and user, and a test looks at what came of one attempt. What stopped
it is compared by value, and so is what the same program came to outside: an attempt that could not have
succeeded anywhere says nothing. At the end stands what is not held, so that it is known and said."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.kit.commands import ROOT, SOMEBODY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes that are tried are Linux's")

ANSWER = "the attempts came to: "
MARKER = "KEEP-THIS-FROM-COMMANDS"
STAGE = ROOT / "tests/sandbox/escapes/stage.py"

# Folders that commands see: below a temporary one they have their own, and nothing outside could be reached.
PLACES = ("/srv", "/opt", os.path.expanduser("~"))

# Seconds for a whole stage; it takes about six on a quiet machine.
PATIENCE_S = 110


@pytest.fixture(scope="module")
def account():
    """An ordinary user of this machine, by number. Where no account can be made, a number without a name."""
    name = f"term2-{os.getpid()}"
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        yield SOMEBODY
        return
    made = subprocess.run(
        ["useradd", "-M", "-U", "-s", "/bin/sh", "-d", "/nonexistent", name], capture_output=True
    )
    if made.returncode != 0:
        yield SOMEBODY
        return
    try:
        yield int(subprocess.run(["id", "-u", name], capture_output=True, check=True).stdout)
    finally:
        subprocess.run(["userdel", name], capture_output=True, check=True)


class Stage:
    """What came of everything, for one sandbox and one user."""

    def __init__(self, kind, user, found):
        self.kind = kind
        self.user = user
        self.found = found

    def __getitem__(self, name):
        """One program or case; not there for a sandbox that does not claim to hold what it is about."""
        if name not in self.found:
            pytest.skip(f"{self.kind} does not claim to hold this, and says so")
        return self.found[name]

    def came_to(self, program, attempt):
        """What an attempt came to, inside and outside."""
        return tuple(self[program][side]["attempts"][attempt] for side in ("inside", "outside"))


KINDS = ("bubblewrap", "landlock")
USERS = ("oneself", "an ordinary user")


@pytest.fixture(scope="module")
def stages(account, tmp_path_factory):
    """All four, run side by side: by kind and user a process and the file with what it says, or why not."""
    place = next((place for place in PLACES if os.access(place, os.W_OK)), None)
    with contextlib.ExitStack() as stack:
        found = {}
        for who in USERS:
            user = os.getuid() if who == "oneself" else account
            python = _interpreter(user)
            for kind in KINDS:
                if user != os.getuid() and os.geteuid() != 0:
                    found[kind, who] = "only root can become another user"
                elif place is None:
                    found[kind, who] = (
                        "there is no folder here that commands see and that is ours to write in"
                    )
                elif python is None:
                    found[kind, who] = "no interpreter here that this user can run, with what we are made of"
                else:
                    folder = stack.enter_context(
                        tempfile.TemporaryDirectory(prefix="term2-escapes-", dir=place)
                    )
                    said = tmp_path_factory.mktemp("stage") / "said"
                    found[kind, who] = _started(stack, python, user, folder, kind, said), said
        yield found


def _started(stack, python, user, folder, kind, said):
    os.chown(folder, user, user if user != os.getuid() else os.getgid())
    if os.getuid() == 0:
        program = Path(folder, "setuid-id")
        shutil.copy(shutil.which("id"), program)
        program.chmod(0o4755)
    output = stack.enter_context(said.open("wb"))
    words = [python, str(STAGE), folder, kind]
    process = stack.enter_context(
        subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, **_as(user))
    )
    stack.callback(process.kill)
    return process


def _as(user):
    """What makes a process one of a user, with a key in its environment."""
    site = next(path for path in sys.path if path.endswith("site-packages"))
    variables = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": f"{ROOT}:{site}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENAI_API_KEY": MARKER,
    }
    become = {"cwd": "/", "env": variables}
    return become | ({} if user == os.getuid() else {"user": user, "group": user, "extra_groups": []})


def _interpreter(user):
    """A Python that a user can run, with what we are made of."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = [python, "-c", "import term2_acp.sandbox, tests.kit.commands"]
            subprocess.run(tried, check=True, capture_output=True, **_as(user))
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return None


@pytest.fixture(
    scope="module",
    params=[(kind, who) for who in USERS for kind in KINDS],
    ids=[f"{kind} as {who}" for who in USERS for kind in KINDS],
)
def stage(request, stages):
    started = stages[request.param]
    if isinstance(started, str):
        pytest.skip(started)
    process, said = started
    code = process.wait(PATIENCE_S)
    text = said.read_text(errors="replace")
    assert code == 0, text[-8000:]
    line = next(line for line in text.splitlines() if line.startswith(ANSWER))
    found = json.loads(line.removeprefix(ANSWER))
    if "skip" in found:
        pytest.skip(found["skip"])
    kind, who = request.param
    return Stage(kind, "root" if who == "oneself" and os.getuid() == 0 else "user", found)


def table(text):
    """Rows of an attempt and what it comes to: under bubblewrap, under Landlock, and outside.

    ``-``: this is not claimed to hold there. ``*``: it depends on the machine. Two words with a comma are of
    root and of an ordinary user; ``|`` stands between words of which any will do, and ``_`` for a space.
    """
    rows = {}
    for line in text.strip().splitlines():
        name, *words = line.split()
        assert len(words) == 3, line
        rows[name] = words
    return rows


def expected(word, stage):
    of_root, _, of_user = word.partition(",")
    return (of_user or of_root if stage.user == "user" else of_root).split("|")


def check(stage, program, rows, attempt):
    under_bubblewrap, under_landlock, outside = rows[attempt]
    word = under_bubblewrap if stage.kind == "bubblewrap" else under_landlock
    if word == "-":
        pytest.skip(f"{stage.kind} does not claim to hold this")
    came_to = stage.came_to(program, attempt)
    for found, allowed in zip(came_to, (expected(word, stage), expected(outside, stage)), strict=True):
        assert "*" in allowed or found.replace(" ", "_") in allowed


def test_every_attempt_is_looked_at(stage):
    for program, rows in TABLES.items():
        if program in stage.found:
            assert sorted(stage[program]["inside"]["attempts"]) == sorted(rows)


# -- writes ----------------------------------------------------------------------------------------

WRITES = table("""
    in_the_workspace                         done    done    done
    in_the_temporary_folder                  done    done    done
    append_to_a_file                         EROFS   EACCES  done
    truncate_a_file                          EROFS   EACCES  done
    open_with_truncation                     EROFS   EACCES  done
    create_a_file                            EROFS   EACCES  done
    create_a_nameless_file                   EROFS   EACCES  done
    create_a_folder                          EROFS   EACCES  done
    create_a_link                            EROFS   EACCES  done
    create_a_fifo                            EROFS   EACCES  done
    create_a_device                          EROFS   EACCES  done,EPERM
    create_a_device_in_the_workspace         EPERM   EACCES  done,EPERM
    remove_a_file                            EROFS   EACCES  done
    remove_a_folder                          EROFS   EACCES  done
    rename_in_place                          EROFS   EACCES  done
    rename_out_of_the_workspace              EXDEV   EACCES  done
    rename_into_the_workspace                EXDEV   EACCES  done
    exchange_with_one_of_the_workspace       EXDEV   EACCES  done
    through_a_symlink                        EROFS   EACCES  done
    through_a_symlink_to_the_folder          EROFS   EACCES  done
    through_a_relative_symlink               EROFS   EACCES  done
    through_dots                             EROFS   EACCES  done
    through_a_hard_link                      EXDEV   EXDEV   done
    through_a_hard_link_outside              EROFS   EACCES  done
    through_a_descriptor_and_a_link          EXDEV   EXDEV   done
    through_a_descriptor_without_a_name      EXDEV   EXDEV   *
    by_opening_a_descriptor_again            EROFS   EACCES  done
    through_the_root_of_this_process         EROFS   EACCES  done
    through_the_root_of_the_first_process    EROFS   EACCES  *
    through_the_folder_of_the_first_process  ENOENT  EACCES  *
    through_any_descriptor_of_any_process    refused refused done
    by_shared_memory_of_the_file             EACCES  EACCES  EACCES
    change_the_mode                          EROFS   -       done
    change_the_mode_of_a_hidden_folder       EROFS   -       done
    change_the_mode_by_a_descriptor          EROFS   -       done
    change_the_times                         EROFS   -       done
    change_the_owner                         EROFS   -       done
    set_an_attribute                         EROFS   -       done
    set_the_flags                            EROFS   -       done
    write_into_a_fifo                        -       EACCES  done
    open_a_device_that_is_there              EACCES,ENOENT   -       done,ENOENT
""")


@pytest.mark.parametrize("attempt", WRITES)
def test_a_write_outside(stage, attempt):
    check(stage, "writes", WRITES, attempt)


def test_what_lies_outside_is_as_it_was(stage):
    """Names, kinds, modes and contents. Landlock does not hold the modes of what is there, and says so."""
    assert stage["writes"]["inside"]["changed"] == (
        [] if stage.kind == "bubblewrap" else [".ssh", "metadata"]
    )
    assert {"outside.txt", "metadata", "elsewhere/new", "victims/removed"} < set(
        stage["writes"]["outside"]["changed"]
    )


# -- reads -----------------------------------------------------------------------------------------

READS = table("""
    an_ordinary_file                         as_it_was as_it_was as_it_was
    a_key                                    ENOENT  EACCES  read
    every_credential_by_its_name             ENODATA EACCES  read
    every_credential_through_the_listing     nothing_to_look_into EACCES  read
    through_a_symlink                        ENOENT  EACCES  read
    through_a_symlink_beside                 ENOENT  EACCES  read
    through_dots                             ENOENT  EACCES  read
    through_the_root_of_this_process         ENOENT  EACCES  read
    through_the_root_of_the_first_process    ENOENT  EACCES  *
    by_another_case                          ENOENT  ENOENT|EACCES  *
    through_a_hard_link_of_the_file          ENOENT  EXDEV   read
    through_a_bind_mount_made_before         ENOENT  ENOENT  *
    through_a_bind_mount_of_the_home_made_before ENOENT ENOENT *
    by_a_handle_of_the_file                  ENOENT  EPERM   *
    the_state_of_term2                       ENOENT  EACCES  read
    the_settings_of_term2                    ENODATA EACCES  read
    the_password_hashes                      ENODATA EACCES  readable,EACCES
    the_environment_of_this_command          another_content another_content read
    the_environment_of_the_daemon            ENOENT  EACCES  read
    the_environment_of_a_stranger            ENOENT  EACCES  read
    the_environment_of_the_first_process     another_content EACCES  *
    every_environment                        nowhere nowhere read
    every_command_line                       nowhere -       read
    the_memory_of_the_daemon                 ENOENT  EACCES  done
    the_files_of_the_daemon                  ENOENT  EACCES  done
    the_folder_of_the_daemon                 ENOENT  EACCES  done
    the_memory_of_the_kernel                 nowhere nowhere *
    the_messages_of_the_kernel               ENOENT  EACCES  *
    the_disks                                none    none    *
""")


@pytest.mark.parametrize("attempt", READS)
def test_a_look_at_what_is_hidden(stage, attempt):
    check(stage, "reads", READS, attempt)


def test_a_second_name_of_a_hidden_place_hides_it_as_well(stage):
    """Made before by a bind mount, which only root can make; outside it is read there."""
    if stage.kind != "bubblewrap" or stage.user != "root":
        pytest.skip("only root has such a mount here")
    for attempt in ("through_a_bind_mount_made_before", "through_a_bind_mount_of_the_home_made_before"):
        assert stage.came_to("reads", attempt) == ("ENOENT", "read")


# -- the kernel ------------------------------------------------------------------------------------

KERNEL = table("""
    make_the_root_writable                   EPERM   EPERM   done,EPERM
    make_the_home_writable_by_attributes     EPERM   EPERM   done,EPERM
    take_off_a_mask                          EPERM   EPERM   EINVAL,EPERM
    bind_something_over_a_mask               EPERM   EPERM   done,EPERM
    bind_the_root_into_the_workspace         EPERM   EPERM   done,EPERM
    clone_a_tree_of_mounts                   EPERM   EPERM   done,EPERM
    make_a_file_system                       EPERM   EPERM   done,EPERM
    change_the_root                          EPERM   EPERM   done,EPERM
    pivot_the_root                           EPERM   EPERM   *
    enter_the_namespace_of_the_first_process EPERM   EACCES  *
    enter_a_namespace_by_a_descriptor_of_a_process EPERM EPERM done,EPERM
    make_a_user_namespace                    EPERM   EPERM   done
    make_a_user_namespace_by_clone           EPERM   EPERM   done
    make_a_user_namespace_by_the_newer_clone ENOSYS  ENOSYS  done
    make_a_user_namespace_by_a_program       refused refused done
    unmount_in_a_namespace_of_ones_own       EPERM   EPERM   EINVAL
    the_program_for_core_dumps               EROFS,EACCES EACCES done,EACCES
    the_program_for_modules                  EROFS|ENOENT,EACCES|ENOENT EACCES|ENOENT *
    the_keys_of_the_system_request           EROFS|ENOENT,EACCES|ENOENT EACCES|ENOENT *
    anything_below_proc                      nothing -       *
    anything_below_sys                       nothing -       some,nothing
    the_agent_of_a_control_group             nothing nothing *
    raw_devices                              nothing nothing *
    a_device_that_is_not_harmless            none    -       some
    keys_of_the_kernel                       EPERM   EPERM   *
    keyrings_of_the_session                  EPERM   EPERM   *
    rings_of_input_and_output                EPERM   EPERM   *
    programs_in_the_kernel                   EPERM   EPERM   *
    faults_handled_by_a_process              EPERM   EPERM   *
    counters_of_the_processor                EPERM   EPERM   *
    memory_that_is_executable_by_reading     EPERM   EPERM   done
    page_zero                                EPERM   EPERM   done
    addresses_that_are_not_random            done    done    done
    a_debugger_of_a_child                    refused refused done
    a_program_of_32_bits                     SIGSYS  SIGSYS  *
    the_table_of_32_bits_by_an_interrupt     SIGSYS  SIGSYS  *
    the_second_table_of_64_bits              ENOSYS  ENOSYS  *
    a_call_that_nobody_looked_at             ENOSYS  ENOSYS  ENOSYS
    the_terminal_of_the_daemon               ENXIO   EACCES  done
    the_terminal_of_the_daemon_by_its_name   ENOENT  EACCES  done
    a_descriptor_of_a_terminal               none    none    some
    typing_into_a_terminal                   EPERM   EPERM   *
    typing_with_upper_bits_set               EPERM   EPERM   *
    pasting_into_a_console                   EPERM   EPERM   ENOTTY
    a_terminal_of_ones_own                   done    -       done
    becoming_root_by_su                      refused refused possible
    a_program_of_roots_that_is_there         *       *       *
    a_set_uid_copy_in_the_workspace          EPERM   EPERM   0o4755
    a_set_uid_copy_by_a_descriptor           EPERM   EPERM   0o4755
    a_set_uid_file_from_the_start            EPERM   EPERM   0o4755
    a_set_uid_file_without_a_name_at_first   EPERM   EPERM   0o4755
    a_set_uid_file_by_the_newest_calls       EPERM   EPERM   0o4755
    a_set_uid_file_by_the_newest_open        ENOSYS  ENOSYS  0o4755
    a_set_uid_node                           EPERM   EPERM   0o4755
    an_ordinary_mode                         0o755   0o755   0o755
    capabilities_of_a_file                   EPERM   EPERM   done,EPERM
    capabilities_of_this_process             none    none    *
""")


@pytest.mark.parametrize("attempt", KERNEL)
def test_an_attempt_to_undo_the_sandbox(stage, attempt):
    check(stage, "kernel", KERNEL, attempt)


def test_a_program_that_belongs_to_root_gives_nobody_its_rights(stage):
    """A copy of ``id`` with the set-uid bit, that was there before."""
    if stage.user == "root":
        pytest.skip("who is root gains nothing by it")
    inside, outside = stage.came_to("kernel", "a_program_of_roots_that_is_there")
    assert outside == "0"
    assert int(inside) > 0


def test_what_is_refused_is_there_to_be_asked_for(stage):
    """At least to root most of these give what they have; a machine may have turned some off."""
    names = (
        "keys_of_the_kernel",
        "rings_of_input_and_output",
        "faults_handled_by_a_process",
        "a_program_of_32_bits",
    )
    if not any(stage.came_to("kernel", name)[1] == "done" for name in names):
        pytest.skip("this kernel has none of them")


# -- processes and sockets outside -----------------------------------------------------------------

STRANGERS = table("""
    a_signal_to_oneself                      done    done    done
    a_signal_to_the_daemon                   ESRCH   EPERM   done
    a_signal_to_a_stranger                   ESRCH   EPERM   done
    a_signal_to_a_thread                     ESRCH   EPERM   done
    a_signal_by_a_descriptor                 ESRCH   EPERM   done
    a_queued_signal                          ESRCH   EPERM   done
    a_signal_to_the_group_of_the_daemon      ESRCH   EPERM   done
    a_debugger                               EPERM   EPERM   *
    reading_its_memory                       EPERM   EPERM   *
    taking_its_descriptor                    ESRCH   EPERM   *
    its_limits                               ESRCH   EPERM   done
    its_priority                             ESRCH   EPERM   done
    its_processors                           ESRCH   EPERM   done
    its_scheduling                           ESRCH   EPERM   done
    its_turn_at_the_disk                     ESRCH   EPERM   done
    its_chance_to_be_killed                  ENOENT  EACCES  done
    its_shared_memory                        EINVAL  EPERM   attached
    removing_its_shared_memory               EINVAL  EPERM   done
    removing_its_queue                       EINVAL  EPERM   done
    removing_its_semaphores                  EINVAL  EPERM   done
    removing_its_named_queue                 ENOENT  EPERM   done
    a_pair_of_sockets                        done    done    done
    a_daemon_in_the_home                     EPERM   EPERM   done
    a_daemon_in_the_workspace                EPERM   EPERM   done
    a_daemon_in_the_temporary_folder         EPERM   EPERM   done
    a_daemon_in_run                          EPERM   EPERM   done
    the_agent_of_ssh                         EPERM   EPERM   done
    a_daemon_by_datagram                     EPERM   EPERM   done
    a_daemon_by_a_pair_of_datagrams          EPERM   EPERM   done
    a_daemon_by_a_raw_pair                   EPERM   EPERM   done
    a_daemon_by_a_pair_of_streams            EISCONN EISCONN EISCONN
    a_daemon_by_a_pair_that_lost_its_other_end EISCONN EISCONN EISCONN
    an_abstract_socket                       EPERM   EPERM   done
    a_server_on_the_loopback                 ECONNREFUSED EPERM done
    a_server_on_the_newer_loopback           ECONNREFUSED|EADDRNOTAVAIL EPERM *
    a_datagram_on_the_loopback               done    EPERM   done
    a_public_address                         ENETUNREACH EPERM *
    a_datagram_to_a_public_address           ENETUNREACH EPERM *
    the_machine_outside_by_vsock             EPERM   EPERM   *
    settings_of_the_network                  none    EPERM   *
    events_of_the_kernel                     EPERM   EPERM   done
    a_raw_socket                             EPERM   EPERM   *
    frames_of_the_network                    EPERM   EPERM   *
    ciphers_of_the_kernel                    EPERM   EPERM   *
    a_server_for_others                      done    -       done
""")

LISTENERS = {
    "home_socket", "workspace_socket", "temporary_socket", "run_socket", "agent_socket", "datagram_socket",
    "abstract", "tcp", "udp",
}  # fmt: skip


@pytest.mark.parametrize("attempt", STRANGERS)
def test_an_attempt_upon_a_stranger(stage, attempt):
    check(stage, "strangers", STRANGERS, attempt)


def test_nobody_outside_was_reached(stage):
    """As seen by those outside: no connection, no datagram, no signal, nothing gone."""
    assert stage["strangers"]["inside"]["facts"] == []
    reached = set(stage["strangers"]["outside"]["facts"])
    assert {f"reached {name}" for name in LISTENERS} < reached
    assert {"the stranger was signalled", "the daemon was signalled", "the segment is gone"} < reached


# -- protected names -------------------------------------------------------------------------------

PROTECTED = table("""
    an_ordinary_file                         done        -   done
    to_write                                 EROFS       -   done
    to_append                                EROFS       -   done
    to_truncate                              EROFS       -   done
    to_rename_over                           EBUSY_EXDEV -   done
    to_rename_away                           EBUSY_EXDEV -   done
    to_exchange                              EBUSY_EXDEV -   done
    to_remove                                EBUSY_EROFS -   done
    to_reach_by_a_hard_link                  EXDEV       -   done
    to_reach_by_a_symlink                    EROFS       -   done
    to_reach_by_a_descriptor                 EROFS       -   done
    to_change_the_mode                       EROFS       -   done
    to_change_the_times                      EROFS       -   done
    to_set_an_attribute                      EROFS       -   done
    to_put_a_name_into_a_protected_folder    EROFS       -   done
    to_rename_the_git_folder                 EBUSY       -   done
    to_exchange_the_git_folder               EBUSY       -   done
    to_rename_the_folder_of_workflows        EBUSY       -   done
    to_rename_the_folder_of_a_submodule      EBUSY       -   done
    to_replace_the_git_folder_of_a_submodule EBUSY       -   done
    to_rename_the_workspace                  EROFS       -   done
    to_put_a_symlink_in_the_place_of_hooks   EXDEV|EBUSY -   done
    to_change_what_a_protected_link_leads_to EROFS       -   done
    to_unmount                               EPERM       -   EINVAL,EPERM
    to_change_term2s_own_code                EROFS       -   done
    to_add_to_term2s_own_code                EROFS       -   done
    to_read_term2s_state_in_the_workspace    ENOENT      -   read
    to_rename_the_folder_of_term2s_state     EBUSY       -   done
""")

# -- a workspace that is read-only as a whole ------------------------------------------------------

READ_ONLY = table("""
    to_read                                  done    done    done
    to_write_a_temporary_file                done    done    done
    to_change_the_mode_of_a_temporary_file   done    EACCES  done
    git_log                                  done    done    done
    a_temporary_file_by_the_shell            done    done    done
    to_open_for_writing                      EROFS   EACCES  done
    to_append                                EROFS   EACCES  done
    to_truncate                              EROFS   EACCES  done
    to_open_with_truncation                  EROFS   EACCES  done
    to_make_a_file                           EROFS   EACCES  done
    to_make_a_nameless_file                  EROFS   EACCES  done
    to_make_a_folder                         EROFS   EACCES  done
    to_remove_a_folder                       EROFS   EACCES  done
    to_make_a_symlink                        EROFS   EACCES  done
    to_make_a_fifo                           EROFS   EACCES  done
    to_remove                                EROFS   EACCES  done
    to_rename                                EROFS   EACCES  done
    to_exchange                              EROFS   EACCES  done
    to_rename_the_workspace                  EROFS   EACCES  done
    to_make_a_hard_link                      EROFS   EACCES  done
    to_change_the_mode                       EROFS   EACCES  done
    to_change_the_mode_by_a_descriptor       EROFS   EACCES  done
    to_change_the_mode_of_the_workspace      EROFS   EACCES  done
    to_change_the_times                      EROFS   EACCES  done
    to_change_the_times_by_a_descriptor      EROFS   EACCES  done
    to_change_the_owner                      EROFS   EACCES  done
    to_set_an_attribute                      EROFS   EACCES  done
    to_set_the_flags                         EROFS   EACCES  done
    by_a_symlink_in_the_temporary_folder     EROFS   EACCES  done
    by_a_hard_link_in_the_temporary_folder   EXDEV   EACCES|EXDEV  done
    by_a_descriptor_that_gets_a_name         EXDEV   EACCES|EXDEV  done
    by_a_rename_into_the_workspace           EXDEV   EACCES|EXDEV  done
    by_a_rename_out_of_the_workspace         EXDEV   EACCES|EXDEV  done
    by_opening_a_descriptor_again            EROFS   EACCES  done
    by_a_descriptor_of_the_folder            EROFS   EACCES  done
    by_the_root_of_this_process              EROFS   EACCES  done
    by_the_folder_of_this_process            EROFS   EACCES  done
    by_the_root_of_the_first_process         EROFS   EACCES  *
    by_the_folder_of_the_parent              EROFS   EACCES  done
    by_another_mount_of_the_folder           EROFS,ENOENT    ENOENT  done|ENOENT
    in_a_mount_within_the_workspace          EROFS,ENOENT    EACCES,ENOENT|EACCES    done,ENOENT|done
    to_read_a_hidden_file_in_it              ENOENT|covered  read    read
    by_mounting_it_anew                      EPERM   EPERM   *
    by_unmounting_it                         EPERM   EPERM   *
    by_mounts_of_its_own                     EPERM   EPERM   *
    cat                                      EROFS   EACCES  done
    tee                                      EROFS   EACCES  done
    sed                                      EROFS   EACCES  done
    touch_a_file                             EROFS   EACCES  done
    touch_a_new_file                         EROFS   EACCES  done
    mkdir                                    EROFS   EACCES  done
    chmod                                    EROFS   EACCES  done
    cp                                       EROFS   EACCES  done
    mv                                       EROFS   EACCES  done
    rm                                       EROFS   EACCES  done
    ln                                       EROFS   EACCES  done
    git_add                                  EROFS   EACCES  done
    git_branch                               EROFS   EACCES  done
    git_commit_amend                         EROFS   EACCES  done
    git_hash_object                          EROFS   EACCES  done
    to_write_its_head                        EROFS   EACCES  done
    to_write_a_branch                        EROFS   EACCES  done
    to_write_its_index                       EROFS   EACCES  done
    to_rename_it                             EROFS   EACCES  done
""")

TABLES = {
    "writes": WRITES,
    "reads": READS,
    "kernel": KERNEL,
    "strangers": STRANGERS,
    "protected": PROTECTED,
    "read_only": READ_ONLY,
}


@pytest.mark.parametrize("attempt", READ_ONLY)
def test_an_attempt_upon_a_workspace_that_is_read_only(stage, attempt):
    check(stage, "read_only", READ_ONLY, attempt)


def test_a_workspace_that_is_read_only_is_as_it_was(stage):
    """Names, modes, contents, and the times of every change; and no hooks folder was made in it by us."""
    found = stage["read_only"]
    assert not found["inside"]["workspace"]
    assert found["outside"]["workspace"]
    assert not any("protected names" in note for note in found["inside"]["notes"])


@pytest.mark.parametrize("attempt", PROTECTED)
def test_an_attempt_upon_protected_names(stage, attempt):
    check(stage, "protected", PROTECTED, attempt)


def test_protected_names_are_as_they_were_and_nothing_new_is_among_them(stage):
    found = stage["protected"]
    assert found["inside"]["unguarded"] == []
    assert found["inside"]["made"] == []
    assert {".git/config", ".git/hooks/pre-commit", "shared-notes", "var/term2"} < set(
        found["outside"]["unguarded"]
    )


# -- what stays behind, and what grows without end -------------------------------------------------


def test_sessions_of_their_own_and_double_forks_are_gone(stage):
    assert stage["sessions_and_double_forks"] == {"said": "left 5\n", "code": 0, "left": []}


def test_who_holds_the_pipe_does_not_hold_the_command(stage):
    assert stage["a_daemon_that_holds_the_pipe"] == {"said": "done\n", "hung": False, "left": []}


def test_a_kill_ends_all_of_it(stage):
    assert stage["a_kill_in_the_midst"] == {"signal": "SIGKILL", "left": []}


def test_a_fork_bomb_stops_at_its_bound(stage):
    found = stage["a_fork_bomb"]
    if "processes" not in found["bounded"]:
        assert "The number of a command's processes is not bounded." in stage["notes"]
        pytest.skip("the number of processes is not bounded here, and that is said")
    made, error = found["said"].split()
    assert 30 < int(made) < 40
    assert error == str(errno.EAGAIN)


def test_one_process_has_its_memory_and_no_more(stage):
    assert stage["memory_of_one_process"]["said"] == "refused\n"


def test_many_processes_have_no_more_than_all_may(stage):
    many, nameless = stage["memory_of_many_processes"], stage["memory_in_nameless_files"]
    if "memory" not in many["bounded"]:
        assert any(note.startswith("A command's memory is bounded for each") for note in stage["notes"])
        assert nameless["said"] == "128 EFBIG\n"  # each is bounded as a file is, all together are not
        pytest.skip("the memory of all processes is not bounded here, and that is said")
    assert many["said"] == "True\n"
    assert (nameless["said"], nameless["signal"]) == ("", "SIGKILL")


def test_temporary_folders_are_filled_to_their_bound(stage):
    said = stage["temporary_folders"]["said"]
    if stage.kind == "bubblewrap":
        assert said == "6 ENOSPC\n6 ENOSPC\n2 ENOSPC\n2 ENOSPC\n2 ENOSPC\n0 EROFS\n0 ENOENT\n"
    else:
        assert said == "64 filled\n0 EACCES\n0 EACCES\n0 EACCES\n0 EACCES\n0 EACCES\n0 ENOENT\n"
        assert "A command's temporary files are bounded one by one, not in all." in stage["notes"]


def test_a_file_stops_growing(stage):
    found = stage["a_file_without_end"]
    assert (found["said"], found["size"]) == ("1024 EFBIG\nEFBIG\nEFBIG\n", 1 << 20)


def test_fifty_megabytes_of_output_arrive_and_are_not_kept(stage):
    found = stage["fifty_megabytes_of_output"]
    assert (found["count"], found["tail"], found["code"]) == (52_428_804, "end\n", 3)
    assert found["grown"] < 16


# -- terminals and the next command ----------------------------------------------------------------


def test_a_program_that_waits_for_a_person_does_not_wait(stage):
    assert stage["a_program_that_waits_for_a_person"] == {"said": "1\n0\n1\n", "hung": False}


def test_a_command_leaves_nothing_for_the_next(stage):
    assert stage["what_one_command_leaves_for_the_next"] == ["end\n", "in\nend\n"]


def test_no_program_of_the_search_path_is_run_bare_by_us(stage):
    """Those that are planted in the workspace are run by commands, inside, where they can do nothing."""
    found = stage["a_search_path_through_the_workspace"]
    assert found["said"] == f"{found['planted']}\n{found['planted']}/git\n"
    assert not found["program"].startswith(found["planted"])
    assert found["by_hand"] == 0
    assert found["ran"] == ["ran-rg"]  # by hand, which shows that they would


# -- what changes while the sandbox is made --------------------------------------------------------

SWAPS = (
    "the_git_folder_becomes_a_link",
    "the_git_folder_becomes_an_absolute_link",
    "the_hooks_become_a_fifo",
    "the_workspace_becomes_a_link",
    "a_folder_above_the_workspace_becomes_a_link",
)


@pytest.mark.parametrize("name", SWAPS)
def test_a_link_that_comes_between_opens_nothing(stage, name):
    """The command is refused, or it runs and nothing beside the workspace is changed."""
    assert stage["no_swap_at_all"] == {"said": "as it was\n", "changed": False}
    found = stage[name]
    assert not found["changed"]
    assert found["said"].startswith("refused: ") or found["said"].endswith("as it was\n")


@pytest.mark.parametrize(
    "name",
    ["the_hooks_become_a_link_to_a_hidden_folder", "the_configuration_becomes_a_link_to_a_hidden_file"],
)
def test_a_link_that_comes_between_reveals_nothing(stage, name):
    found = stage[name]
    assert MARKER not in found["said"]
    assert not found["changed"]
    if stage.kind == "bubblewrap":
        assert "is not what it should be in the sandbox" in found["said"]
    else:
        assert "Permission denied" in found["said"]


# -- odd workspaces --------------------------------------------------------------------------------


def test_no_name_of_a_workspace_is_taken_for_something_else(stage):
    found = stage["odd_names"]
    assert len(found) == (13 if stage.kind == "bubblewrap" else 5)
    for said, there, config, *beside in found.values():
        assert beside == []
        if stage.kind == "bubblewrap":
            assert (said, there, config) == ("in\n", [".git/HEAD", ".git/config", "file"], "as it was\n")
        else:
            assert said.startswith("in\n")
            assert "../out" not in said


def test_a_name_of_four_thousand_bytes_works_or_is_refused(stage):
    found = stage["a_name_of_four_thousand_bytes"]
    if found["said"].startswith("refused: "):
        assert found["there"] == []
    else:
        assert found["there"] == ["file"]
        assert found["said"].startswith("in\n")
        assert "outside.txt: " in found["said"]  # the words of the shell about what it could not write


# -- what is not held ------------------------------------------------------------------------------


def test_many_files_can_fill_a_disk(stage):
    assert stage["many_files"] == 8 * (1 << 18)


def test_a_fifo_outside_can_be_written_to(stage):
    """A read-only mount is no bar to it; whoever reads there reads what a command wrote. Landlock is one."""
    if stage.kind == "landlock":
        assert stage["writes"]["inside"]["facts"] == []
    else:
        assert stage.came_to("writes", "write_into_a_fifo") == ("done", "done")
        assert stage["writes"]["inside"]["facts"] == ["fifo got order"]


def test_a_file_that_is_replaced_while_a_command_runs_is_seen(stage):
    """The cover of a file goes with it; that of a folder stays. Landlock grants nothing to a new file."""
    hidden = stage["a_hidden_file_that_is_replaced_meanwhile"]
    if stage.kind == "bubblewrap":
        assert hidden == "newer\n"
    else:
        assert hidden.endswith("Permission denied\n")
    assert stage["a_file_in_a_hidden_folder_that_is_replaced_meanwhile"] == "no\n"


def test_a_protected_file_that_is_replaced_while_a_command_runs_can_be_changed_and_that_is_told(stage):
    said, told = stage["a_protected_file_that_is_replaced_meanwhile"]
    assert (said, told) == ("wrote\n", [".git/config"])


def test_what_is_mounted_while_a_command_runs_is_seen_and_can_be_written(stage):
    """Where the machine shares its mounts; whoever may write there may, a command too."""
    found = stage["a_file_system_that_is_mounted_meanwhile"]
    if found == "not tried":
        pytest.skip("only root mounts something, and Landlock grants nothing there")
    assert found == "late\nwrote\n"


def test_modes_and_times_outside_can_be_changed_under_landlock(stage):
    if stage.kind != "landlock":
        pytest.skip("the mounts hold it")
    for attempt in ("change_the_mode", "change_the_times", "set_an_attribute"):
        assert stage.came_to("writes", attempt) == ("done", "done")
    assert any(note.startswith("Commands can change the permissions and times") for note in stage["notes"])


def test_command_lines_are_seen_under_landlock(stage):
    if stage.kind != "landlock":
        pytest.skip("processes outside are not seen at all")
    assert stage.came_to("reads", "every_command_line") == ("read", "read")
    assert "Commands see the other processes here and their command lines, not into them." in stage["notes"]
