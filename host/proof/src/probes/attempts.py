"""Attempts to get out of the sandbox, one a run: `python3 -I -c THIS NAME`, with what it needs to know in PROBE.

Each prints one last line: `refused: ERRNO` where the system said no, `did: WHAT` where it did not. None of them harms a
machine whose sandbox lacks a defence: they look, count to a bound of their own, and stop at the first success.
"""
import ctypes, errno, json, mmap, os, resource, shutil, signal, socket, stat, struct, sys, time

know = json.loads(os.environ["PROBE"])
libc = ctypes.CDLL(None, use_errno=True)
machine = os.uname().machine
attempts = {}


def attempt(function):
    attempts[function.__name__] = function
    return function


def call(x86_64, aarch64, *arguments):
    """A system call by number; what the library wraps is tried without the library's own checks."""
    number = x86_64 if machine == "x86_64" else aarch64
    wide = [ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


def write(path):
    with open(path, "w") as file:
        file.write("escaped")
    return "wrote " + path


def leave(path):
    """Makes a file where none may be made, and takes it away again."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.remove(path)
    return "made " + path


def is_changed(path, change):
    """Raises where the change was made of nothing: the fallback reports success for calls that it leaves out."""
    before = os.stat(path).st_ctime_ns
    change()
    if os.stat(path).st_ctime_ns == before:
        raise PermissionError(errno.EPERM, "")


def change_mode(path):
    is_changed(path, lambda: os.chmod(path, 0o600))
    return "changed the mode of a file outside"


def change_nothing(path):
    """To change something to what it is already takes the same right."""
    is_changed(path, lambda: os.chmod(path, stat.S_IMODE(os.stat(path).st_mode)))
    return "changed the mode of " + path


def fork_and(body):
    """Runs `body` in a child whose exit status is the error number."""
    child = os.fork()
    if child == 0:
        try:
            body()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise OSError(os.WEXITSTATUS(status), "")


# The file system.

@attempt
def write_system(): return leave("/usr/tool-probe")

@attempt
def write_etc(): return leave("/etc/tool-probe")

@attempt
def write_root(): return leave("/tool-probe")

@attempt
def write_interpreter(): return leave(os.path.join(sys.prefix, "tool-probe"))

@attempt
def write_outside(): return leave(os.path.join(know["outside"], "probe"))

@attempt
def write_home():
    path = os.path.join(know["home"], "tool-probe")
    os.makedirs(know["home"], exist_ok=True)
    return write(path)

@attempt
def write_package_cache(): return write(os.path.join(os.environ["HOME"], ".cargo/registry/tool-probe"))

@attempt
def change_package_cache(): return write(os.path.join(os.environ["HOME"], ".cargo/registry/package"))

def read_first(places):
    for place in places:
        try:
            return open(os.path.join(know["home"], place)).read()
        except OSError as error:
            last = error
    raise last

@attempt
def read_cache_credentials(): return read_first(know["credentials"])

@attempt
def read_manager_settings(): return read_first(know["settings"])

@attempt
def read_other_environment(): return open(know["module"]).read()

@attempt
def read_other_builds(): return open(os.path.join(know["builds"], "other/left")).read()

@attempt
def write_other_builds(): return leave(os.path.join(know["builds"], "other/tool-probe"))

@attempt
def change_repository():
    for name in ["new.txt", "kept.txt"]:
        write(name)
    os.rename("sub/inner.txt", "sub/moved.txt")
    return "changed"

@attempt
def delete_repository():
    for name in os.listdir("."):
        shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)
    assert os.listdir(".") == []
    os.mkdir("sub")
    write("sub/again.txt")
    return "deleted"

@attempt
def read_hidden(): return open(".env").read()

@attempt
def read_hidden_link(): return open("other-name.txt").read()

@attempt
def read_git(): return open(".git/HEAD").read()

@attempt
def uncover_hidden():
    write(".env")
    os.remove(".env")
    os.rename("kept.txt", ".env")
    os.rename(".env", "kept.txt")
    return open(".env").read()

@attempt
def read_outside(): return open(os.path.join(know["outside"], "token")).read()

@attempt
def read_through_link():
    os.symlink(os.path.join(know["outside"], "token"), "probe-link")
    return open("probe-link").read()

@attempt
def read_through_proc(): return open("/proc/1/root" + os.path.join(know["outside"], "token")).read()

@attempt
def read_parent():
    return open(os.path.join("sub", "..", "..", os.path.basename(know["outside"]), "token")).read()

@attempt
def read_shadow(): return "read %d characters" % len(open("/etc/shadow").read(9))

@attempt
def open_by_handle():
    handle = ctypes.create_string_buffer(struct.pack("II", 8, 1) + struct.pack("II", 2, 0) + bytes(120))
    call(304, 265, os.open(".", os.O_RDONLY), ctypes.cast(handle, ctypes.c_void_p), 0)
    return "opened something by its handle"

@attempt
def make_device():
    os.mknod("probe-disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0))
    return "made a disk"

@attempt
def change_device(): return change_nothing("/dev/null")

@attempt
def change_proc(): return change_nothing("/proc/version")

@attempt
def change_program():
    """By a handle for reading, which is all that a run has of what it is shown."""
    handle = os.open(sys.executable, os.O_RDONLY)
    is_changed(handle, lambda: os.fchmod(handle, stat.S_IMODE(os.fstat(handle).st_mode)))
    return "changed the mode of " + sys.executable

@attempt
def change_mode_outside(): return change_mode(os.path.join(know["outside"], "token"))

@attempt
def change_mode_by_link():
    os.symlink(os.path.join(know["outside"], "token"), "probe-link")
    return change_mode("probe-link")

@attempt
def change_mode_by_handle():
    handle = os.open(os.path.join(know["outside"], "token"), os.O_PATH)
    is_changed(handle, lambda: call(452, 452, handle, ctypes.c_char_p(b""), 0o600, 0x1000))
    return "changed the mode of a file outside"

@attempt
def change_mode_by_proc():
    handle = os.open(os.path.join(know["outside"], "token"), os.O_PATH)
    return change_mode("/proc/self/fd/%d" % handle)

@attempt
def change_times_outside():
    token = os.path.join(know["outside"], "token")
    is_changed(token, lambda: os.utime(token, (1, 1)))
    return "changed the times of a file outside"

@attempt
def change_owner_outside():
    os.chown(os.path.join(know["outside"], "token"), os.getuid(), os.getgid())
    return "changed the owner of a file outside"

@attempt
def change_attributes_outside():
    os.setxattr(os.path.join(know["outside"], "token"), "user.probe", b"x")
    return "changed the attributes of a file outside"

@attempt
def hold_lease():
    """Asks by a handle for reading. The kernel reads only the lower half of the command."""
    handle, refused = os.open(sys.executable, os.O_RDONLY), None
    for command in [1024, 1 << 32 | 1024, 1040]:
        try:
            call(72, 25, handle, command, 0)
            return "keeps writers from " + sys.executable
        except OSError as error:
            if not refused or error.errno != errno.EPERM:
                refused = error
    raise refused

@attempt
def leave_root():
    fork_and(lambda: os.chroot("sub"))
    return "changed the root"

# Rights.

@attempt
def keep_rights():
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    names = ["CapPrm", "CapEff", "CapInh", "CapAmb"] + ["CapBnd"] * (know["sandbox"] == "namespaces")
    rights = [status[name] for name in names]
    if all(int(right, 16) == 0 for right in rights) and status["NoNewPrivs"] == "1":
        raise OSError(errno.EPERM, "")
    return "kept rights: " + " ".join(rights)

@attempt
def inherit_handles():
    held = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            held.add(os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass
    odd = sorted(path for path in held if not path.startswith(("/dev/null", "pipe:", "/proc/")))
    if not odd:
        raise OSError(errno.EBADF, "")
    return "holds " + ", ".join(odd)

@attempt
def inherit_environment():
    for name in ["TOOL_PROBE_SECRET", "SSH_AUTH_SOCK", "HOSTED_API_KEY"]:
        if name in os.environ:
            return "sees " + name
    raise OSError(errno.ENOENT, "")

@attempt
def new_user_namespace():
    fork_and(lambda: call(272, 97, 0x10000000))
    return "has a user namespace"

@attempt
def clone_user_namespace():
    child = call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "has a user namespace"

@attempt
def clone3_user_namespace():
    arguments = ctypes.create_string_buffer(struct.pack("Q" * 8, 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0))
    child = call(435, 435, ctypes.cast(arguments, ctypes.c_void_p), 64)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "has a user namespace"

@attempt
def join_namespace():
    call(308, 268, os.open("/proc/self/ns/net", os.O_RDONLY), 0)
    return "joined a namespace"

@attempt
def mount():
    place = ctypes.c_char_p(os.path.join(know["repository"], "sub").encode())
    call(165, 40, ctypes.c_char_p(b"none"), place, ctypes.c_char_p(b"tmpfs"), 0, 0)
    call(166, 39, place, 2)
    return "mounted"

@attempt
def mount_anew():
    call(430, 430, ctypes.c_char_p(b"tmpfs"), 0)
    return "opened a file system"

@attempt
def unmount():
    call(166, 39, ctypes.c_char_p(know["repository"].encode()), 2)
    return "took the cover off the repository"

@attempt
def write_kernel_settings():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return "opened it"

@attempt
def write_sysrq():
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
    return "opened it"

@attempt
def read_kernel_memory():
    if os.open("/proc/kcore", os.O_RDONLY) and os.path.getsize("/proc/kcore"):
        return "opened it"
    raise OSError(errno.ENOENT, "")

def read_proc(names):
    """An empty file counts as one that is not there."""
    for name in names:
        try:
            if os.read(os.open("/proc/" + name, os.O_RDONLY), 8):
                return "read /proc/" + name
        except OSError:
            pass
    raise OSError(errno.ENOENT, "")

@attempt
def read_kernel_tables():
    names = ["kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "vmallocinfo", "pagetypeinfo", "timer_list", "tty/driver/serial"]
    proc = os.listdir("/proc")
    return read_proc(names + [name for name in proc if os.lstat("/proc/" + name).st_mode & 0o404 == 0o400])

@attempt
def read_kernel_settings(): return read_proc(["cmdline", "config.gz"])

@attempt
def trace():
    child = os.fork()
    if child == 0:
        time.sleep(5)
        os._exit(0)
    try:
        call(101, 117, 16, child, 0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
    return "traces another process"

@attempt
def trace_me():
    fork_and(lambda: call(101, 117, 0, 0, 0, 0))
    return "may trace"

@attempt
def read_memory():
    target = ctypes.create_string_buffer(b"x" * 16)
    vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(target), 16))
    call(310, 270, os.getpid(), ctypes.cast(vector, ctypes.c_void_p), 1, ctypes.cast(vector, ctypes.c_void_p), 1, 0)
    return "reads memory by process"

@attempt
def write_first_process():
    os.close(os.open("/proc/1/mem", os.O_RDWR))
    return "opened the memory of the first process"

@attempt
def take_handle():
    call(438, 438, call(434, 434, os.getppid(), 0), 0, 0)
    return "took a handle of its parent"

@attempt
def signal_outside():
    os.kill(know["process"], 0)
    return "could signal a process outside"

@attempt
def see_outside():
    return "read %d characters" % len(open("/proc/%d/cmdline" % know["process"]).read())

@attempt
def read_outside_environment():
    return "read %d characters" % len(open("/proc/%d/environ" % know["process"]).read())

@attempt
def stop_keeper():
    """Of the process that counts what it uses."""
    keeper = os.getppid()
    os.kill(keeper, signal.SIGSTOP)
    time.sleep(0.2)
    state = open("/proc/%d/stat" % keeper).read().rsplit(")", 1)[1].split()[0]
    os.kill(keeper, signal.SIGCONT)
    if state == "T":
        return "stopped who counts"
    raise OSError(errno.EPERM, "")

@attempt
def limit_outside():
    resource.prlimit(know["process"], resource.RLIMIT_CORE, resource.prlimit(know["process"], resource.RLIMIT_CORE))
    return "set a limit of a process outside"

@attempt
def slow_outside():
    os.setpriority(os.PRIO_PROCESS, know["process"], os.getpriority(os.PRIO_PROCESS, know["process"]))
    return "set the priority of a process outside"

@attempt
def place_outside():
    os.sched_setaffinity(know["process"], os.sched_getaffinity(know["process"]))
    return "set the processors of a process outside"

@attempt
def starve_outside():
    call(251, 30, 1, know["process"], call(252, 31, 1, know["process"]))
    return "set the disk priority of a process outside"

@attempt
def shared_memory():
    call(29, 194, know["key"], 4096, 0o1600)
    return "has shared memory that every process could find"

@attempt
def message_queue():
    name = ctypes.c_char_p(know["abstract"].encode())
    os.close(call(240, 180, name, os.O_RDWR | os.O_CREAT, 0o600, 0))
    call(241, 181, name)
    return "had a queue that every process could find"

@attempt
def use_keys():
    call(250, 219, 0, ctypes.c_void_p(-4 & 0xffffffffffffffff).value, 0)
    return "has a keyring"

@attempt
def add_key():
    call(248, 217, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"probe"), ctypes.c_char_p(b"x"), 1, -2 & 0xffffffff)
    return "added a key"

@attempt
def use_io_uring():
    parameters = ctypes.create_string_buffer(120)
    call(425, 425, 1, ctypes.cast(parameters, ctypes.c_void_p))
    return "has a ring"

@attempt
def use_unlisted_calls():
    # io_setup, vmsplice, remap_file_pages, name_to_handle_at, mbind, and one that no kernel has yet.
    for x86_64, aarch64 in [(206, 0), (278, 75), (216, 234), (303, 264), (237, 235), (999, 999)]:
        try:
            call(x86_64, aarch64)
            return "called %d" % x86_64
        except OSError as error:
            last = error
            if error.errno != errno.ENOSYS:
                break
    raise last

@attempt
def load_bpf():
    call(321, 280, 0, ctypes.cast(ctypes.create_string_buffer(128), ctypes.c_void_p), 128)
    return "made a map"

@attempt
def watch_performance():
    # Of its own work in user space alone, which is what most systems allow.
    attribute = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 0) + bytes(24) + struct.pack("Q", 0x60) + bytes(80))
    call(298, 241, ctypes.cast(attribute, ctypes.c_void_p), 0, -1 & 0xffffffff, -1 & 0xffffffff, 0)
    return "opened a counter"

@attempt
def handle_faults():
    call(323, 282, 1)
    return "handles page faults"

@attempt
def change_personality():
    call(135, 92, 0x0040000)
    return "switched address randomisation off"

@attempt
def load_module():
    call(313, 273, os.open("/dev/null", os.O_RDONLY), ctypes.c_char_p(b""), 0)
    return "may load modules"

@attempt
def type_into_terminal():
    import fcntl
    _, slave = os.openpty()
    def body():
        # Into one's own terminal, which some systems allow.
        os.setsid()
        fcntl.ioctl(slave, 0x540e, 0)
        fcntl.ioctl(slave, 0x5412, b"x")
    fork_and(body)
    return "typed"

@attempt
def open_terminal():
    os.open("/dev/tty", os.O_RDWR)
    return "has a terminal"

# The network and sockets.

def reach(family, kind, address):
    with socket.socket(family, kind) as connection:
        connection.settimeout(2)
        connection.connect(address)
        connection.send(b"escaped")
        if kind == socket.SOCK_DGRAM:
            time.sleep(0.1)
            connection.send(b"escaped")
    return "sent"

@attempt
def reach_host(): return reach(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", know["tcp"]))

@attempt
def reach_host_udp(): return reach(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", know["udp"]))

@attempt
def reach_host_ipv6(): return reach(socket.AF_INET6, socket.SOCK_STREAM, ("::1", know["tcp"]))

@attempt
def reach_out(): return reach(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80))

@attempt
def reach_out_udp(): return reach(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))

@attempt
def reach_abstract(): return reach(socket.AF_UNIX, socket.SOCK_STREAM, b"\0" + know["abstract"].encode())

@attempt
def reach_socket(): return reach(socket.AF_UNIX, socket.SOCK_STREAM, os.path.join(know["outside"], "socket"))

@attempt
def take_abstract_name():
    one, _ = socket.socketpair()
    one.bind("\0" + know["abstract"] + "-taken")
    return "has an abstract name"

@attempt
def reach_socket_by_pair():
    """Of a pair that takes single messages, each may go somewhere else."""
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"escaped", os.path.join(know["outside"], "messages"))
    return "sent"

def backend():
    return os.path.join(know["outside"], "backend.sock")

@attempt
def reach_backend(): return reach(socket.AF_UNIX, socket.SOCK_STREAM, backend())

@attempt
def reach_backend_by_proc():
    """Goes through the root directory of the process that started the run, and through its own."""
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
    refused = None
    for root in ["/proc/%d/root" % know["process"], "/proc/self/root", "/proc/1/root"]:
        try:
            return reach(socket.AF_UNIX, socket.SOCK_STREAM, root + backend())
        except OSError as error:
            # Too long for an address: by a handle of the folder.
            refused = refused or error
    raise refused

@attempt
def reach_backend_by_streams():
    """Connects one end of a connected pair again, sends from it to another address, and listens on it."""
    allowed = []
    for kind in [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]:
        for other_is_closed in [False, True]:
            one, other = socket.socketpair(socket.AF_UNIX, kind)
            if other_is_closed:
                other.close()
                one.shutdown(socket.SHUT_RDWR)
            for way in [
                lambda: one.connect(backend()),
                lambda: one.sendto(b"escaped", backend()),
                lambda: one.sendmsg([b"escaped"], [], 0, backend()),
                lambda: one.listen(1),
            ]:
                try:
                    way()
                    allowed.append(one)
                except OSError:
                    pass
    time.sleep(0.1)
    return "kept %d pairs" % len(allowed)

@attempt
def reach_backend_inherited():
    """A socket among the inherited handles would lead to the process that holds the other end."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                os.write(int(name), b"escaped")
                return "wrote to handle " + name
        except OSError:
            pass
    raise OSError(errno.EBADF, "")

@attempt
def reach_socket_inside(): return reach(socket.AF_UNIX, socket.SOCK_STREAM, "server.sock")

@attempt
def use_packets():
    socket.socket(17, socket.SOCK_RAW, 0)
    return "has a packet socket"

@attempt
def use_raw():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
    return "has a raw socket"

@attempt
def use_vsock():
    socket.socket(40, socket.SOCK_STREAM, 0)
    return "has a socket to the hypervisor"

@attempt
def use_netlink():
    socket.socket(16, socket.SOCK_RAW, 9)
    return "has an audit socket"

# What a run may use.


def pad(path, blocks):
    block = bytes(1 << 20)
    try:
        with open(path, "wb") as file:
            for _ in range(blocks):
                file.write(block)
    finally:
        os.path.exists(path) and os.remove(path)
    return "wrote %d MiB" % blocks

@attempt
def fill_tree(): return pad("probe-fill", know["tree_mib"] + 1)

@attempt
def fill_temporary(): return pad("/tmp/probe-fill", know["scratch_mib"] + 1)

@attempt
def fill_package_cache():
    return pad(os.path.join(os.environ["HOME"], ".cargo/registry/probe-fill"), know["tree_mib"] + 1)

@attempt
def fill_memory_disk(): return pad("/dev/shm/probe-fill", know["scratch_mib"] + 1)

@attempt
def fill_names():
    os.mkdir("probe-names")
    for number in range(know["inodes"] + 1):
        open("probe-names/%d" % number, "w").close()
    return "made %d files" % (know["inodes"] + 1)

@attempt
def fork_bomb():
    for _ in range(2 * know["tasks"]):
        if os.fork() == 0:
            signal.alarm(5)
            while True:
                time.sleep(1)
    time.sleep(1)
    return "has %d processes" % (2 * know["tasks"])

@attempt
def use_memory():
    held = []
    for _ in range(2 * know["memory_mib"]):
        held.append(os.urandom(1) * (1 << 20))
    time.sleep(1)
    return "has %d MiB" % (2 * know["memory_mib"])

@attempt
def hold_memory_unseen():
    """In a process that may not be looked into."""
    libc.prctl(4, 0, 0, 0, 0)
    return use_memory()

@attempt
def hold_memory_in_tables():
    """By which the kernel finds pages that take no memory themselves: one in each two mebibytes of addresses."""
    pages = 2 * know["memory_mib"] * 256
    place = mmap.mmap(-1, pages << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
    place.madvise(15)
    for page in range(pages):
        place[page << 21]
    time.sleep(1)
    return "has %d MiB of tables" % (pages >> 8)

@attempt
def hold_memory_in_memfd():
    """Without mapping it, so that it is no process's."""
    block, held = bytes(1 << 20), []
    for _ in range(know["memory_mib"] // 16):
        handle = call(319, 279, ctypes.c_char_p(b"probe"), 0)
        for _ in range(32):
            os.write(handle, block)
        held.append(handle)
    time.sleep(1)
    return "has %d MiB in files without a place" % (len(held) * 32)

@attempt
def hold_memory_shared():
    held, block = [], b"x" * (1 << 20)
    for _ in range(2 * know["memory_mib"]):
        held.append(mmap.mmap(-1, 1 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
        held[-1].write(block)
    time.sleep(1)
    return "has %d MiB that others could share" % len(held)

@attempt
def hold_memory_segments():
    """Of which none is attached; they are taken away at the end, because on a bare machine they would stay."""
    libc.shmat.restype, size, held = ctypes.c_void_p, 16 << 20, []
    try:
        for _ in range(know["memory_mib"] // 8):
            held.append(call(29, 194, 0, size, 0o1600))
            place = libc.shmat(held[-1], None, 0)
            ctypes.memset(place, 1, size)
            libc.shmdt(ctypes.c_void_p(place))
        time.sleep(1)
    finally:
        for number in held:
            libc.shmctl(number, 0, None)
    return "has %d MiB in %d segments" % (len(held) * 16, len(held))

@attempt
def use_addresses():
    try:
        mmap.mmap(-1, 3 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
    except (MemoryError, OverflowError):
        raise OSError(errno.ENOMEM, "")
    return "mapped three tebibytes"

@attempt
def dump_core():
    child = os.fork()
    if child == 0:
        most = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))
        os.abort()
    _, status = os.waitpid(child, 0)
    if os.WCOREDUMP(status):
        return "left a core"
    raise OSError(errno.EPERM, "")

@attempt
def outlive():
    """Leaves two processes behind that have nothing in common with it any more."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            code = "import time; time.sleep(30) # %s" % know["mark"]
            os.execve(sys.executable, [sys.executable, "-I", "-c", code], {})
        os._exit(0)
    time.sleep(0.2)
    return "left a process"

@attempt
def outlast():
    """Does not listen, forks on, and goes on for ever."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
    os.environ.clear()
    time.sleep(30)
    return "lasted"


try:
    print("did: " + str(attempts[sys.argv[1]]()), flush=True)
except OSError as error:
    print("refused: " + errno.errorcode.get(error.errno, str(error)), flush=True)
