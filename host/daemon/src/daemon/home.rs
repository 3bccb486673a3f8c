//! Checks that no other user of the machine can change the content of a home, or the folder that its path leads to.
//!
//! The home holds commands that run as the user (`api_key_command`). So the rule is that of OpenSSH's `StrictModes`,
//! for every folder and every link on the path from `/`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::state::{private_folder, start_failure};
use tool_core::api::{ErrorKind, Problem};
use tool_sandbox::program_sandbox;

const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const SEARCHABLE_BY_OTHERS: u32 = 0o011;

/// Limit for links on the path to a home; the kernel has the same limit.
const LINKS_MAX: usize = 40;

const OTHER_HOME: &str = "leave TOOL_HOME out, or set it to a folder that `mktemp -d` made";

/// Checks a home.
///
/// # Errors
///
/// Other users can replace or write to it, or test runs can see it.
pub fn check_home(home: &Path) -> Result<(), Problem> {
    let (path, viewer) = (resolve_path(home), HomeUser::read_viewer());
    viewer.check(home, &path)?;
    if let Some(file) = exposed_configuration(&path) {
        viewer.check_way(&file.path.clone(), &[file])?;
    }
    // A test run sees the system's directories, and could connect to the socket there.
    if program_sandbox::shows_to_runs(&path.target) {
        let hint = format!(
            "`{}` lies in a directory of the system, which test runs can see: set TOOL_HOME to a folder elsewhere",
            home.display()
        );
        return Err(Problem::new(ErrorKind::StartFailed, "Failed to start backend service").with_hint(hint));
    }
    Ok(())
}

/// Checks a home, and creates it if it does not exist. It is checked again then: in a sticky folder, another user may
/// have created it first.
pub(super) fn make_home(home: &Path) -> Result<(), Problem> {
    check_home(home)?;
    private_folder(home).map_err(|error| start_failure("its folder", home, &error))?;
    check_home(home)
}

/// Returns the configuration file of a home that other users can search; `None` for a link.
fn exposed_configuration(home: &ResolvedPath) -> Option<PathComponent> {
    let folder = home.components.last().filter(|last| last.path == home.target)?;
    let file = PathComponent::read_component(home.target.join("config.toml"))?;
    (folder.mode & SEARCHABLE_BY_OTHERS != 0 && !file.is_link).then_some(file)
}

/// A folder, a link or a file on a path.
#[derive(Debug)]
struct PathComponent {
    path: PathBuf,
    owner: u32,
    mode: u32,
    is_link: bool,
}

impl PathComponent {
    fn read_component(path: PathBuf) -> Option<Self> {
        let metadata = fs::symlink_metadata(&path).ok()?;
        Some(Self {
            path,
            owner: metadata.uid(),
            mode: metadata.mode(),
            is_link: metadata.is_symlink(),
        })
    }
}

/// A path after the kernel's lookup.
struct ResolvedPath {
    /// The existing components from `/` on, links included.
    components: Vec<PathComponent>,
    /// The folder at the end, which may not exist.
    target: PathBuf,
}

/// Follows a path, and records every component that exists and can be reached.
fn resolve_path(path: &Path) -> ResolvedPath {
    let reversed = |path: &Path| {
        let parts = path.components().rev().map(|part| part.as_os_str().to_owned());
        parts.collect::<Vec<OsString>>()
    };
    let (mut rest, mut target, mut components, mut links) = (reversed(path), PathBuf::new(), Vec::new(), 0);
    while let Some(part) = rest.pop() {
        match part.as_encoded_bytes() {
            b"." => continue,
            b".." => {
                target.pop();
                continue;
            }
            b"/" => target = PathBuf::from("/"),
            _ => target.push(&part),
        }
        // Skip a missing folder: `..` after it can lead to an existing one.
        let Some(component) = PathComponent::read_component(target.clone()) else {
            continue;
        };
        let is_link = component.is_link;
        components.push(component);
        if is_link {
            links += 1;
            match fs::read_link(&target) {
                Ok(leads_to) if links <= LINKS_MAX => {
                    rest.extend(reversed(&leads_to));
                    target.pop();
                }
                _ => break,
            }
        }
    }
    ResolvedPath { components, target }
}

/// The user whose home is checked.
#[derive(Debug, Clone, Copy)]
struct HomeUser {
    user: u32,
    /// In a user namespace that does not map all users: the owner that the kernel shows for the others. If `/` has
    /// this owner, root is one of them.
    unmapped: Option<u32>,
}

impl HomeUser {
    fn read_viewer() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let map = read("/proc/self/uid_map");
        let is_whole = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
        Self {
            user: rustix::process::geteuid().as_raw(),
            // Without /proc/self/uid_map, there are no user namespaces, or they are invisible.
            unmapped: (!map.is_empty() && !is_whole)
                .then(|| read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(65534)),
        }
    }

    /// Refuses a home that another user owns, can write to, or can replace.
    fn check(self, home: &Path, path: &ResolvedPath) -> Result<(), Problem> {
        let last = path.components.last();
        let last = last.filter(|last| last.path == path.target && !last.is_link);
        if let Some(last) = last {
            if last.owner != self.user {
                return Err(foreign_owner_problem(home, last));
            }
            if last.mode & WRITABLE_BY_OTHERS != 0 {
                return Err(writable_home_problem(home, last));
            }
        }
        self.check_way(home, &path.components)
    }

    /// Refuses a path with a folder or a link of another user, or with a folder that another user can write to and
    /// that is not sticky.
    fn check_way(self, home: &Path, components: &[PathComponent]) -> Result<(), Problem> {
        let mut is_parent_shared = false;
        for component in components {
            let is_root = component.owner == 0 || self.unmapped == Some(component.owner) && !is_parent_shared;
            if !is_root && component.owner != self.user {
                return Err(foreign_owner_problem(home, component));
            }
            if !component.is_link {
                is_parent_shared = component.mode & WRITABLE_BY_OTHERS != 0;
                if is_parent_shared && component.mode & STICKY == 0 {
                    return Err(writable_home_problem(home, component));
                }
            }
        }
        Ok(())
    }
}

/// The problem with another user's home: that user's daemon may be running there, and could change our files.
fn foreign_owner_problem(home: &Path, component: &PathComponent) -> Problem {
    let (place, owner) = (component.path.display(), component.owner);
    let message = match component {
        PathComponent { path, .. } if path == home => format!("`{place}` belongs to another user (uid {owner})"),
        PathComponent { is_link: true, .. } => format!(
            "The home `{}` leads through the link `{place}`, which belongs to another user (uid {owner})",
            home.display()
        ),
        PathComponent { is_link: false, .. } => format!(
            "The home `{}` lies below `{place}`, which belongs to another user (uid {owner})",
            home.display()
        ),
    };
    Problem::new(ErrorKind::ForeignHome, message).with_hint(format!(
        "set TOOL_HOME to a folder of yours; with sudo, `sudo -H` gives root a home of its own; in a job, {OTHER_HOME}"
    ))
}

/// The problem with a home that others can write to: they could replace the socket and the configuration.
fn writable_home_problem(home: &Path, component: &PathComponent) -> Problem {
    let (place, mode) = (component.path.display(), component.mode & 0o7777);
    let message = format!("Other users may write to `{place}` (mode {mode:o})");
    let mut hint = format!("run `chmod go-w {place}`");
    if component.path != home {
        hint = format!("it leads to the home `{}`: {hint}, or {OTHER_HOME}", home.display());
    }
    Problem::new(ErrorKind::OpenHome, message).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    #[test]
    fn a_home_that_test_runs_can_see_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        check_home(folder.path()).expect("it is out of sight");
        check_home(&folder.path().join("not/there/yet")).expect("it is out of sight");
        let link = folder.path().join("link");
        symlink("/usr", &link).expect("the folder is writable");
        for home in [Path::new("/usr/not/there"), &link.join("not/there")] {
            let hint = check_home(home).expect_err("runs see it").hint.unwrap_or_default();
            assert!(hint.contains("lies in a directory of the system"), "{hint}");
        }
    }

    #[test]
    fn a_home_that_other_users_may_write_to_is_refused() {
        let home = tempfile::tempdir().expect("a temporary folder");
        for (mode, is_allowed) in [
            (0o700, true),
            (0o755, true),
            (0o775, false),
            (0o1777, false),
            (0o702, false),
        ] {
            fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(check_home(home.path()).is_ok(), is_allowed, "{mode:o}");
        }
        let problem = check_home(home.path()).expect_err("others may write to it");
        let path = home.path().display();
        let said = format!("Other users may write to `{path}` (mode 702)");
        assert_eq!((problem.kind.code(), problem.message), ("open-home", said));
        assert_eq!(problem.hint, Some(format!("run `chmod go-w {path}`")));
    }

    #[test]
    fn a_configuration_that_other_users_can_write_is_refused() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let file = home.path().join("config.toml");
        fs::write(&file, "").expect("it is writable");
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        for (folder, configuration, is_allowed) in [
            (0o755, 0o644, true),
            (0o755, 0o664, false),
            (0o710, 0o602, false),
            // Other users cannot reach it.
            (0o700, 0o666, true),
        ] {
            mode(home.path(), folder);
            mode(&file, configuration);
            let result = check_home(home.path());
            assert_eq!(result.is_ok(), is_allowed, "{folder:o} {configuration:o}: {result:?}");
        }
        mode(home.path(), 0o755);
        // Only root can give a file away.
        if rustix::process::geteuid().is_root() {
            mode(&file, 0o644);
            std::os::unix::fs::chown(&file, Some(MALLORY), None).expect("root may");
            assert!(check_home(home.path()).is_err(), "it is another user's");
        }
    }

    /// Checks a home by the facts of its components: path, owner, mode; a link has mode 0.
    fn is_allowed(viewer: HomeUser, home: &str, components: &[(&str, u32, u32)]) -> bool {
        let components = components.iter().map(|&(path, owner, mode)| PathComponent {
            path: path.into(),
            owner,
            mode,
            is_link: mode == 0,
        });
        let path = ResolvedPath {
            components: components.collect(),
            target: home.into(),
        };
        viewer.check(Path::new(home), &path).is_ok()
    }

    const ROOT: u32 = 0;
    const ADA: u32 = 1000;
    const MALLORY: u32 = 1001;
    const OVERFLOW: u32 = 65534;

    #[test]
    fn every_folder_and_link_on_the_way_belongs_to_root_or_the_user_and_is_not_shared() {
        let viewer = HomeUser {
            user: ADA,
            unmapped: None,
        };
        let way = |middle: (&str, u32, u32), last: (u32, u32)| {
            let components = [("/", ROOT, 0o755), middle, ("/a/home", last.0, last.1)];
            is_allowed(viewer, "/a/home", &components)
        };
        let own = (ADA, 0o700);
        for (middle, is_fine) in [
            ((ROOT, 0o755), true),
            ((ADA, 0o755), true),
            ((MALLORY, 0o755), false),
            ((OVERFLOW, 0o755), false),
            ((ROOT, 0o1777), true),
            ((ADA, 0o1770), true),
            ((MALLORY, 0o1777), false),
            ((ROOT, 0o777), false),
            ((ROOT, 0o775), false),
            ((ADA, 0o757), false),
            // Links.
            ((ROOT, 0), true),
            ((ADA, 0), true),
            ((MALLORY, 0), false),
        ] {
            assert_eq!(way(("/a", middle.0, middle.1), own), is_fine, "{middle:?}");
        }
        let shared = ("/a", ROOT, 0o1777);
        for last in [(ROOT, 0o755), (MALLORY, 0o700), (ADA, 0o1777), (ADA, 0o770)] {
            assert!(!way(shared, last), "{last:?}");
        }
        let missing = [("/", ROOT, 0o755), shared];
        assert!(is_allowed(viewer, "/a/home", &missing), "it will be made");
    }

    #[test]
    fn in_a_user_namespace_an_unmapped_owner_is_root_except_in_a_shared_folder() {
        let viewer = HomeUser {
            user: ADA,
            unmapped: Some(OVERFLOW),
        };
        let home = ("/home/ada", ADA, 0o700);
        let (top, homes) = (("/", OVERFLOW, 0o755), ("/home", OVERFLOW, 0o755));
        assert!(is_allowed(viewer, "/home/ada", &[top, homes, home]));
        assert!(!is_allowed(
            viewer,
            "/home/ada",
            &[top, ("/home", OVERFLOW, 0o777), home]
        ));
        let (shared, strange) = (("/tmp", OVERFLOW, 0o1777), ("/tmp/x", OVERFLOW, 0o755));
        assert!(is_allowed(viewer, "/tmp/x", &[top, shared, ("/tmp/x", ADA, 0o700)]));
        assert!(!is_allowed(
            viewer,
            "/tmp/x/a",
            &[top, shared, strange, ("/tmp/x/a", ADA, 0o700)]
        ));
        assert!(!is_allowed(
            viewer,
            "/h",
            &[top, shared, ("/tmp/x", OVERFLOW, 0), ("/h", ADA, 0o700)]
        ));
        assert!(
            !is_allowed(viewer, "/h", &[top, ("/h", OVERFLOW, 0o755)]),
            "it is not the user's"
        );
    }

    #[test]
    fn a_home_below_a_shared_folder_is_refused_and_the_folder_is_named() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let shared = folder.path().canonicalize().expect("it is there").join("shared");
        let home = shared.join("a/home");
        fs::create_dir_all(&home).expect("the folder is writable");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("it is ours");
        let by_detour = shared.join("not/../../shared/a/home");
        for home in [
            &*home,
            &shared.join("not/there"),
            &folder.path().join("not/../shared/a/home"),
            &by_detour,
        ] {
            let problem = check_home(home).expect_err("others may replace it");
            let said = format!("Other users may write to `{}` (mode 777)", shared.display());
            assert_eq!((problem.kind.code(), problem.message), ("open-home", said));
        }
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("it is ours");
        check_home(&home).expect("a sticky folder keeps what is in it");
        // By another spelling.
        check_home(&shared.join("b/../a/./home")).expect("the same folder");
    }

    #[test]
    fn links_of_another_user_are_not_followed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path().canonicalize().expect("it is there");
        let (own, link) = (folder.join("own"), folder.join("link"));
        fs::create_dir(&own).expect("the folder is writable");
        symlink("own", &link).expect("the folder is writable");
        check_home(&link).expect("the link is the user's own");
        check_home(&link.join("home")).expect("the link is the user's own");
        let (first, second) = (folder.join("first"), folder.join("second"));
        symlink("second", &first).expect("the folder is writable");
        symlink("first", &second).expect("the folder is writable");
        let path = resolve_path(&first.join("home"));
        assert!(path.components.len() > LINKS_MAX, "it ends");
        check_home(&first.join("home")).expect("nothing can be opened there");
        // Only root can give a link away.
        if rustix::process::geteuid().is_root() {
            lchown(&link, Some(MALLORY), None).expect("root may");
            let problem = check_home(&link.join("home")).expect_err("it can lead anywhere");
            let said = format!(
                "The home `{}` leads through the link `{}`, which belongs to another user (uid {MALLORY})",
                link.join("home").display(),
                link.display()
            );
            assert_eq!((problem.kind.code(), problem.message), ("foreign-home", said));
            lchown(&own, Some(MALLORY), None).expect("root may");
            let said = check_home(&own.join("home")).expect_err("it can be replaced").message;
            assert!(said.contains("lies below"), "{said}");
        }
    }

    #[test]
    fn a_home_is_made_private() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().join("a/home");
        make_home(&home).expect("the folder is writable");
        let mode = fs::metadata(&home).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
    }
}
