//! Confines a helper from inside before it reads anything hostile. Each step gives something up for good.

use std::fs;
use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

use super::{HelperRights, filter};
use crate::handles::close_inherited;
use crate::program_sandbox;

/// Interval of the signal that interrupts a helper which waits in the kernel, for example in opening a FIFO. No disk
/// needs as long.
const CONFINE_WAKE_MS: i64 = 500;

/// Open files of a helper. A repository that was never repacked has some hundred packs.
const CONFINE_FILES_OPEN_MAX: u64 = 1024;

type ConfineResult<T> = Result<T, (&'static str, io::Error)>;

fn name_step<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    step: &'static str,
) -> impl Fn(E) -> (&'static str, io::Error) {
    move |error| (step, io::Error::other(error))
}

/// Applies every restriction; true if Landlock is among them. Landlock and seccomp apply to the calling thread, so the
/// process must have only one.
pub(super) fn confine_process(walls: &HelperRights) -> ConfineResult<bool> {
    // Without this a helper would outlive an engine that was killed.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(name_step("tying it to its starter"))?;
    close_inherited().map_err(name_step("closing what it inherited"))?;
    // Only a preference: if the machine runs out of memory, the kernel ends this process first.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    wake_regularly().map_err(name_step("setting an alarm"))?;
    set_rlimits(walls).map_err(name_step("setting limits"))?;
    let rights = "giving up rights";
    program_sandbox::give_up_capabilities().map_err(name_step(rights))?;
    // Other processes of the same user could otherwise attach to this one and read its memory.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(name_step(rights))?;
    // Required for seccomp without rights, and keeps set-user-id programs from giving rights back.
    rustix::thread::set_no_new_privs(true).map_err(name_step(rights))?;
    let landlock = apply_landlock(walls).map_err(name_step("raising Landlock"))?;
    // Last: the filter forbids the calls of the steps above.
    filter::apply_filters().map_err(name_step("filtering system calls"))?;
    Ok(landlock)
}

/// Interrupts every system call that waits, at intervals. Opening a FIFO waits for a writer without end; libraries give
/// up when the call returns `EINTR`.
fn wake_regularly() -> io::Result<()> {
    extern "C" fn ignore_signal(_signal: libc::c_int) {}
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: CONFINE_WAKE_MS * 1000,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    #[expect(
        unsafe_code,
        reason = "an interval timer, and a handler without the flag that would restart calls"
    )]
    // SAFETY: the handler does nothing, all structures are whole, and zero is a valid mask and set of flags.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) == 0
            && libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn list_rlimits(walls: &HelperRights) -> [(Resource, u64); 6] {
    [
        (Resource::Core, 0),
        (Resource::Data, walls.memory_bytes),
        (Resource::As, walls.address_bytes),
        (Resource::Cpu, walls.cpu_seconds),
        (Resource::Fsize, walls.file_bytes),
        (Resource::Nofile, CONFINE_FILES_OPEN_MAX),
    ]
}

fn set_rlimits(walls: &HelperRights) -> io::Result<()> {
    for (resource, bound) in list_rlimits(walls) {
        let before = rustix::process::getrlimit(resource);
        let within = |value: Option<u64>| Some(value.map_or(bound, |value| value.min(bound)));
        let mut bounded = Rlimit {
            current: within(before.current),
            maximum: within(before.maximum),
        };
        if resource == Resource::Cpu && before.maximum.is_none() {
            // The soft limit ends the process with `SIGXCPU`, which names the cause; the hard limit kills without one.
            // Both at the same second would hide the cause.
            bounded.maximum = Some(bound + 1);
        }
        rustix::process::setrlimit(resource, bounded)?;
    }
    Ok(())
}

/// Newest Landlock version whose rights are used, if the kernel knows them.
const NEWEST: ABI = ABI::V6;

/// First Landlock version with `Refer`: it allows moving a file between directories, which git does with every object.
const NEEDED: ABI = ABI::V2;

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir | Refer
});

/// Returns false if the kernel has no Landlock, or one that is too old.
fn apply_landlock(walls: &HelperRights) -> Result<bool, RulesetError> {
    // Asked for separately: best effort alone would accept a kernel that lacks `Refer` and fail git later.
    let needed = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED));
    if needed.is_err() {
        return Ok(false);
    }
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(&walls.read, READ))?
        .add_rules(path_beneath_rules(&walls.write, WRITE))?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_has_the_bounds_that_it_is_given() {
        let walls = HelperRights {
            memory_bytes: 1,
            address_bytes: 2,
            cpu_seconds: 3,
            file_bytes: 4,
            ..HelperRights::default()
        };
        let values = list_rlimits(&walls).map(|(_, bound)| bound);
        assert_eq!(values, [0, 1, 2, 3, 4, CONFINE_FILES_OPEN_MAX]);
    }
}
