//! Decides which paths of the machine a run sees, from its command, before anything is started.
//!
//! The system's own directories are always visible. A run also needs the interpreter that it runs with, at its real
//! path: a virtual environment and the Python that it was made with, or what a version manager keeps in the user's
//! home. A repository can name such directories (a virtual environment names its Python), so a directory becomes
//! visible only if it looks like one of these, and never if it holds this program's state.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::spec::{InstallSpec, RunSpec, VisiblePath};
use super::{Enclosure, LayeredFolder, Sandbox, WrittenFile};
use crate::CommandSpec;
use crate::environment;

/// Directories of the system, visible for reading.
pub(super) const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];

/// A version manager in the user's home. A run sees the parts of its folder that start an interpreter or were installed
/// with one. It does not see `etc`, `var` and settings, which hold tokens and data.
struct Manager {
    /// End of the folder's path.
    folder: &'static str,
    /// The manager's own programs, and the files that select a version.
    own: &'static [&'static str],
    /// Folder of the installations, and how many levels below it each of them is.
    installed: (&'static str, usize),
}

const fn manager(folder: &'static str, own: &'static [&'static str], installed: (&'static str, usize)) -> Manager {
    Manager { folder, own, installed }
}

const ENV_PARTS: &[&str] = &["bin", "libexec", "plugins", "shims", "version"];

const MANAGERS: [Manager; 16] = [
    manager(".pyenv", ENV_PARTS, ("versions", 1)),
    manager(".rbenv", ENV_PARTS, ("versions", 1)),
    manager(".nodenv", ENV_PARTS, ("versions", 1)),
    manager(".rye", &["shims"], ("py", 1)),
    manager(".nvm", &["alias", "nvm-exec", "nvm.sh"], ("versions", 2)),
    manager(
        ".volta",
        &["bin", "layout.v3", "layout.v4", "tools/user"],
        ("tools/image", 2),
    ),
    manager(".fnm", &["aliases"], ("node-versions", 2)),
    manager(".local/share/fnm", &["aliases"], ("node-versions", 2)),
    manager(".local/state/fnm_multishells", &[], ("", 0)),
    manager(
        ".asdf",
        &["asdf.sh", "bin", "lib", "libexec", "plugins", "shims"],
        ("installs", 2),
    ),
    manager(".local/share/mise", &["plugins", "shims"], ("installs", 2)),
    manager(".proto", &["bin", "plugins", "shims"], ("tools", 2)),
    manager(
        ".linuxbrew",
        &["bin", "include", "lib", "libexec", "opt", "sbin", "share"],
        ("Cellar", 2),
    ),
    manager(".sdkman", &[], ("candidates", 2)),
    manager(".rustup", &["settings.toml"], ("toolchains", 1)),
    manager(".goenv", ENV_PARTS, ("versions", 1)),
];

/// Folder of uv's interpreters. uv keeps no other files there.
const UV: &str = ".local/share/uv/python";

/// Folders of an installation that hold settings and data. Homebrew keeps a package's original ones in `.bottle`.
const DATA: [&str; 3] = ["etc", "var", ".bottle"];

/// Settings of package managers that hold tokens and passwords. A run does not see them in any folder. The last two
/// belong to a Maven and a Gradle that a version manager has installed.
const SETTINGS: [&str; 8] = [
    "npmrc",
    ".npmrc",
    "pip.conf",
    "pydistutils.cfg",
    ".pydistutils.cfg",
    ".pypirc",
    "settings.xml",
    "gradle.properties",
];

/// Paths of these settings in the system's directories, which are not searched.
const SYSTEM_SETTINGS: [&str; 8] = [
    "/usr/etc/npmrc",
    "/usr/local/etc/npmrc",
    "/usr/pip.conf",
    "/usr/local/pip.conf",
    "/usr/etc/pip.conf",
    "/usr/local/etc/pip.conf",
    "/usr/lib/node_modules/npm/npmrc",
    "/usr/local/lib/node_modules/npm/npmrc",
];

/// Levels below a visible folder in which settings are looked for: enough for `lib/node_modules/npm/npmrc`.
const SETTINGS_DEPTH: usize = 2;

/// Entries of a prefix that programs need. Not `share`: `~/.local/share` holds keys.
const PREFIX: [&str; 7] = ["bin", "lib", "lib64", "libexec", "include", "pyvenv.cfg", "ssl"];

/// Programs that recipes start, and programs that these start.
const PROGRAMS: [&str; 14] = [
    "python3",
    "python",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "python3.14",
    "node",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "uv",
    "poetry",
];

/// Variables that name paths which the run does not see, or that would keep files out of the private home.
const DROPPED: [&str; 6] = [
    "TMPDIR",
    "UV_CACHE_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Variables that tell installers their proxy.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "http_proxy",
    "https_proxy",
    "npm_config_proxy",
    "npm_config_https_proxy",
];

/// Links that are followed in one path: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Builds the specification of a run. `folder` is the working folder of a run in the fallback.
pub(super) fn build_spec(command: &CommandSpec, enclosure: &Enclosure, folder: Option<&Path>) -> RunSpec {
    let mut environment = command.environment.clone();
    environment.retain(|name, _| !DROPPED.contains(&name.as_str()));
    let home = home_of(&environment);
    let path = environment.get("PATH").map_or("", String::as_str);
    let path = path.split(':').map(PathBuf::from).filter(|folder| folder.is_absolute());
    let mut sight = RunView {
        root: &enclosure.root,
        home: home.as_deref(),
        path: path.collect(),
        state: enclosure.state_directory.as_deref(),
        tracked_links: &enclosure.tracked_links,
        visible: BTreeMap::new(),
    };
    sight.program(&command.program);
    if let Some(folder) = environment.get("VIRTUAL_ENV") {
        sight.environment(Path::new(folder));
    }
    for folder in sight.path.clone() {
        sight.programs_in(&folder, &enclosure.tools.programs);
    }
    sight.users_packages();
    let installation = enclosure.installation.as_ref();
    for path in installation.iter().flat_map(|installation| &installation.shown) {
        sight.file(path);
    }
    let tools = &enclosure.tools;
    for path in &tools.shown {
        sight.file(path);
    }
    for invocation in &tools.before {
        sight.program(&invocation.program);
    }
    let layers = sight.layered(&tools.layers);
    let outside = installation.and_then(|installation| installation.outside.clone());
    if let Some(outside) = &outside {
        // Mounted separately, as a whole and for writing.
        sight.visible.retain(|path, _| !path.starts_with(outside));
    }
    RunSpec {
        sandbox: enclosure.sandbox,
        program: command.program.clone(),
        arguments: command.arguments.clone(),
        directory: command.directory.clone(),
        root: enclosure.root.clone(),
        hidden: enclosure.hidden.clone(),
        visible: sight.visible.into_values().collect(),
        home,
        environment,
        bounds: enclosure.bounds,
        folder: folder.map(Path::to_owned),
        installation: installation.map(|_| InstallSpec {
            outside,
            proxy_variables: PROXY_VARIABLES.map(str::to_owned).to_vec(),
        }),
        files: written_files(&tools.files, home_of(&command.environment).as_deref(), &layers),
        layers,
        builds: match enclosure.sandbox {
            Sandbox::Namespaces => tools.builds.clone(),
            // Nothing can be mounted into the copy of the fallback, which is removed with the run.
            Sandbox::Landlock | Sandbox::None => Vec::new(),
        },
        refreshed: tools.refreshed.clone(),
        proposed: tools.proposed.clone(),
        before: tools.before.clone(),
        hands_back: tools.hands_back,
    }
}

/// The home that an empty folder replaces.
fn home_of(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let home = environment.get("HOME").map(PathBuf::from);
    home.filter(|home| is_private_place(home))
}

/// Selects the files whose folder is private to the run: no other folder is written to.
fn written_files(files: &[WrittenFile], home: Option<&Path>, layers: &[LayeredFolder]) -> Vec<WrittenFile> {
    let is_private = |file: &&WrittenFile| {
        let is_beside = |layer: &LayeredFolder| {
            let has_part = layer.parts.iter().any(|part| !part.as_os_str().is_empty());
            has_part && file.place.parent() == Some(&layer.place)
        };
        home.is_some_and(|home| file.place.starts_with(home)) || layers.iter().any(is_beside)
    };
    files.iter().filter(is_private).cloned().collect()
}

/// True if an empty folder may replace this home.
fn is_private_place(home: &Path) -> bool {
    let plain = home
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let taken = ["/proc", "/dev", "/etc", "/tmp", "/run", "/var/tmp"];
    home.is_absolute()
        && plain
        && home.parent().is_some()
        && !is_system(home)
        && !taken.iter().any(|place| home == Path::new(place))
}

pub(super) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Visible paths of a run.
struct RunView<'a> {
    root: &'a Path,
    home: Option<&'a Path>,
    /// Folders of the user's `PATH`.
    path: Vec<PathBuf>,
    state: Option<&'a Path>,
    tracked_links: &'a [String],
    visible: BTreeMap<PathBuf, VisiblePath>,
}

impl RunView<'_> {
    /// Makes a program visible, with everything that it was installed with.
    fn program(&mut self, program: &Path) {
        // `bin/python` of a virtual environment is often a link; the environment around the link matters too.
        if let Some(prefix) = program.parent().and_then(Path::parent) {
            self.environment(prefix);
        }
        let Some(real) = self.follow(program) else { return };
        if program.starts_with(self.root) && !self.is_usual(&real) {
            return;
        }
        let is_installed = self.prefix_of(&real);
        // A link in the repository does not make its target visible.
        if !is_installed && real.is_file() && !program.starts_with(self.root) {
            self.show(npm_package(&real).unwrap_or(&real));
        }
    }

    /// Makes a virtual environment visible, and the Python that it was made with. What an environment in the repository
    /// names becomes visible only if the user works with it anyway, because it may be another project's environment.
    fn environment(&mut self, folder: &Path) {
        let Some(text) = environment::venv_record(folder) else {
            return;
        };
        let value = |line: &str| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "home").then(|| PathBuf::from(value.trim()))
        };
        let base = text.lines().find_map(value).and_then(|base| self.follow(&base));
        let base = base.map(|base| base.join("python3"));
        let is_own = !folder.starts_with(self.root);
        let is_link = || folder.canonicalize().ok().as_deref() != Some(folder);
        let is_linked = |link: &String| folder.starts_with(self.root.join(link)) && (!link.is_empty() || is_link());
        let is_tracked = self.tracked_links.iter().any(is_linked);
        let is_usual = |real: &Path| {
            base.as_ref().is_some_and(|base| self.is_usual(base))
                && (!is_tracked || self.is_usual(&real.join("bin/python3")))
        };
        if let Some(real) = folder.canonicalize().ok().filter(|real| is_own || is_usual(real)) {
            self.follow(folder);
            self.prefix(&real);
        }
        let pythons = [self.follow(&folder.join("bin/python")), base];
        for python in pythons.into_iter().flatten() {
            if is_own || self.is_usual(&python) {
                self.prefix_of(&python);
            }
        }
    }

    /// True for a program in the repository, or one that the user works with anyway: of the system, on the `PATH`, or
    /// of a version manager in the home, unless it belongs to a virtual environment there.
    fn is_usual(&self, program: &Path) -> bool {
        let Some(folder) = program.parent() else { return false };
        if is_system(folder) || folder.starts_with(self.root) {
            return true;
        }
        let is_environment = folder.parent().is_some_and(|prefix| prefix.join("pyvenv.cfg").exists());
        let outside = || self.path.iter().filter(|entry| !entry.starts_with(self.root));
        let leads_here = |path: &Path| {
            let real = path.canonicalize();
            real.is_ok_and(|real| real == folder || real.parent() == Some(folder))
        };
        let find = |folder: &Path| MANAGERS.iter().any(|manager| folder.ends_with(manager.folder));
        if outside().any(|entry| {
            let manager = entry.ancestors().find(|above| find(above));
            if manager.is_some_and(|manager| folder.starts_with(manager)) && !is_environment {
                return true;
            }
            let mut programs = PROGRAMS.iter().map(|name| entry.join(name));
            leads_here(entry) || programs.any(|program| leads_here(&program))
        }) {
            return true;
        }
        let is_installed = |manager: &str| {
            let home = self.home.map(|home| home.join(manager));
            home.and_then(|home| home.canonicalize().ok())
                .is_some_and(|home| folder.starts_with(home))
        };
        let mut managers = MANAGERS.iter().map(|manager| manager.folder).chain([UV]);
        !is_environment && (folder.starts_with("/opt") || managers.any(is_installed))
    }

    /// Makes a file or folder visible that the user's own configuration names.
    fn file(&mut self, path: &Path) {
        if let Some(real) = self.follow(path) {
            self.show(&real);
        }
    }

    /// True if the program, given by its real path, belongs to a prefix; the prefix is then visible.
    fn prefix_of(&mut self, program: &Path) -> bool {
        let prefix = program.parent().and_then(Path::parent);
        prefix.is_some_and(|prefix| self.manager(prefix) || self.prefix(prefix))
    }

    /// Makes the programs visible that recipes may want from one entry of the `PATH`.
    fn programs_in(&mut self, folder: &Path, further: &[String]) {
        if is_system(folder) || folder.starts_with(self.root) || self.manager(folder) {
            return;
        }
        for name in PROGRAMS.into_iter().chain(further.iter().map(String::as_str)) {
            let program = folder.join(name);
            if program.exists() {
                self.program(&program);
            }
        }
    }

    /// Selects the parts of layered folders that exist and may be seen.
    fn layered(&self, layers: &[LayeredFolder]) -> Vec<LayeredFolder> {
        let is_allowed = |path: &Path| {
            let state = self.state;
            let holds_state = state.is_some_and(|state| path.starts_with(state) || state.starts_with(path));
            path.is_dir() && !holds_state && !is_system(path) && !self.root.starts_with(path)
        };
        let kept = layers.iter().map(|layer| LayeredFolder {
            place: layer.place.clone(),
            parts: layer
                .parts
                .iter()
                .filter(|part| is_allowed(&layer.place.join(part)))
                .cloned()
                .collect(),
        });
        kept.filter(|layer| !layer.place.starts_with(self.root)).collect()
    }

    /// Makes packages visible that the user installed for the machine's Python.
    fn users_packages(&mut self) {
        let Some(libraries) = self.home.map(|home| home.join(".local/lib")) else {
            return;
        };
        for entry in std::fs::read_dir(libraries).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"python3") {
                self.show(&entry.path());
            }
        }
    }

    /// True if the path is in a version manager's folder; its programs and libraries are then visible.
    fn manager(&mut self, path: &Path) -> bool {
        // The outermost match: a manager's folder may hold another one, as an installed tool.
        let find = |folder: &Path| MANAGERS.iter().find(|manager| folder.ends_with(manager.folder));
        let found = path.ancestors().filter_map(|folder| Some((folder, find(folder)?)));
        let Some((folder, manager)) = found.last() else {
            return false;
        };
        let mut is_shown = false;
        for own in manager.own {
            is_shown |= self.show(&folder.join(own));
        }
        let (installed, depth) = manager.installed;
        let installed = match installed {
            "" => folder.to_owned(),
            installed => folder.join(installed),
        };
        self.show_parts(&installed, depth + 1) || is_shown
    }

    /// True for the prefix of an interpreter; its parts are then visible.
    fn prefix(&mut self, prefix: &Path) -> bool {
        let is_prefix = is_system(prefix) || is_prefix(prefix);
        if is_prefix {
            for part in PREFIX {
                self.show(&prefix.join(part));
            }
        }
        is_prefix
    }

    /// Makes a path visible unless the run sees it anyway, it does not exist, or it would show too much. True if it is
    /// visible.
    fn show(&mut self, path: &Path) -> bool {
        if is_system(path) || path.starts_with(self.root) {
            return true;
        }
        let holds = |inner: Option<&Path>| inner.is_some_and(|inner| inner.starts_with(path));
        let in_state = self.state.is_some_and(|state| path.starts_with(state));
        if in_state || holds(self.state) || holds(self.home) || holds(Some(self.root)) {
            return false;
        }
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => match self.follow(path) {
                Some(real) => self.show(&real),
                None => false,
            },
            Ok(metadata) if metadata.is_dir() || metadata.is_file() => {
                self.show_parts(path, 0);
                true
            }
            _ => false,
        }
    }

    /// Makes a file visible, or a folder without settings: those of package managers, and in the first `strict` levels
    /// all settings. True if something is visible.
    fn show_parts(&mut self, path: &Path, strict: usize) -> bool {
        let mut settings = Vec::new();
        find_settings(path, strict, strict + SETTINGS_DEPTH, &mut settings);
        let parts = exclude_paths(path, &settings);
        for part in &parts {
            // The target of a link is visible for another reason, or not at all.
            let visible = match std::fs::read_link(part) {
                Ok(target) => VisiblePath::Link {
                    path: part.clone(),
                    target,
                },
                Err(_) => VisiblePath::Place(part.clone()),
            };
            self.visible.insert(part.clone(), visible);
        }
        !parts.is_empty()
    }

    /// Resolves a path; links on the way become visible as links.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let mut rest = path
            .components()
            .rev()
            .map(|part| part.as_os_str().to_owned())
            .collect::<Vec<_>>();
        let (mut real, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = rest.pop() {
            match part.as_encoded_bytes() {
                b"/" => real = PathBuf::from("/"),
                b"." => {}
                b".." => {
                    real.pop();
                }
                _ => {
                    let place = real.join(&part);
                    let Ok(target) = std::fs::read_link(&place) else {
                        real = place;
                        continue;
                    };
                    links += 1;
                    if links > LINKS_MAX {
                        return None;
                    }
                    rest.extend(target.components().rev().map(|part| part.as_os_str().to_owned()));
                    self.link(place, target);
                }
            }
        }
        real.exists().then_some(real)
    }

    fn link(&mut self, path: PathBuf, target: PathBuf) {
        let is_there = is_system(&path) || path.starts_with(self.root) || self.is_covered(&path);
        if !is_there {
            self.visible.insert(path.clone(), VisiblePath::Link { path, target });
        }
    }

    fn is_covered(&self, path: &Path) -> bool {
        let shown = |folder: &Path| matches!(self.visible.get(folder), Some(VisiblePath::Place(_)));
        path.ancestors().any(shown)
    }
}

/// Collects settings in a folder and `depth` levels below it. In the first `strict` levels, everything counts that may
/// be a setting.
fn find_settings(folder: &Path, strict: usize, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = name.to_string_lossy();
        let is_file_of_settings = !is_folder && (name.ends_with("rc") || name.ends_with(".conf"));
        if SETTINGS.contains(&&*name) || strict > 0 && (DATA.contains(&&*name) || is_file_of_settings) {
            found.push(path);
        } else if is_folder && depth > 0 {
            find_settings(&path, strict.saturating_sub(1), depth - 1, found);
        }
    }
}

/// Returns the folder itself, or its parts without `left_out`; nothing if it does not exist.
fn exclude_paths(path: &Path, left_out: &[PathBuf]) -> Vec<PathBuf> {
    if !left_out.iter().any(|left| left.starts_with(path)) {
        return if path.symlink_metadata().is_ok() {
            vec![path.to_owned()]
        } else {
            Vec::new()
        };
    }
    if left_out.iter().any(|left| left == path) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| exclude_paths(&entry.path(), left_out))
        .collect()
}

/// Settings of package managers that exist in the system's directories.
pub(super) fn system_settings() -> impl Iterator<Item = &'static Path> {
    SYSTEM_SETTINGS.into_iter().map(Path::new).filter(|path| path.exists())
}

/// The system's directories without these settings.
pub(super) fn system_parts() -> Vec<PathBuf> {
    let settings: Vec<PathBuf> = system_settings().map(Path::to_owned).collect();
    let system = SYSTEM.iter().map(Path::new);
    system.flat_map(|system| exclude_paths(system, &settings)).collect()
}

/// Folder of the npm package that a program belongs to. The program loads further files of the package.
fn npm_package(program: &Path) -> Option<&Path> {
    let is_modules = |folder: &Path| folder.ends_with("node_modules");
    program.ancestors().skip(1).find(|folder| {
        let Some(parent) = folder.parent() else { return false };
        let is_scope = parent
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"));
        is_modules(parent) || is_scope && parent.parent().is_some_and(is_modules)
    })
}

/// True for a folder in which a Python or a Node.js is installed.
fn is_prefix(folder: &Path) -> bool {
    if folder.join("pyvenv.cfg").is_file() || folder.join("lib/node_modules/npm").is_dir() {
        return true;
    }
    let libraries = std::fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
    libraries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python3"))
        .any(|entry| entry.path().join("os.py").is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program_sandbox::{RunBounds, ToolAccess};

    struct PlannedMachine {
        folder: tempfile::TempDir,
        tracked: Vec<String>,
    }

    impl PlannedMachine {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().expect("there is room for a folder"),
                tracked: Vec::new(),
            }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.folder.path().canonicalize().expect("it is there").join(path)
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.at(path);
            std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
            std::fs::write(path, text).expect("files can be written");
        }

        fn link(&self, path: &str, target: &str) {
            let path = self.at(path);
            std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("folders can be made");
            std::os::unix::fs::symlink(target, path).expect("links can be made");
        }

        /// Lists the paths that a program of the repository's virtual environment sees.
        fn visible(&self, path: &str) -> String {
            let text = |path: &str| self.at(path).to_string_lossy().into_owned();
            let command = CommandSpec {
                program: self.at("root/.venv/bin/python"),
                arguments: Vec::new(),
                directory: self.at("root"),
                environment: BTreeMap::from([("HOME".to_owned(), text("home")), ("PATH".to_owned(), text(path))]),
            };
            let enclosure = Enclosure {
                sandbox: Sandbox::Namespaces,
                root: self.at("root"),
                hidden: Vec::new(),
                tracked_links: self.tracked.clone(),
                state_directory: Some(self.at("home/.tool")),
                bounds: RunBounds::default(),
                installation: None,
                tools: ToolAccess::default(),
            };
            let spec = build_spec(&command, &enclosure, None);
            let shown = spec.visible.iter().map(|visible| match visible {
                VisiblePath::Place(path) => format!("{}\n", path.display()),
                VisiblePath::Link { path, target } => format!("{} -> {}\n", path.display(), target.display()),
            });
            let all = shown.collect::<String>();
            all.replace(&format!("{}/", self.at("").display()).replace("//", "/"), "")
        }
    }

    #[test]
    fn a_virtual_environment_shows_the_python_that_it_was_made_with() {
        let machine = PlannedMachine::new();
        machine.file("home/.local/share/uv/python/cpython-3.12.1/bin/python3.12", "");
        machine.file("home/.local/share/uv/python/cpython-3.12.1/lib/python3.12/os.py", "");
        machine.file("home/.local/share/keyrings/login.keyring", "secret");
        machine.link("home/.local/share/uv/python/cpython-3.12", "cpython-3.12.1");
        let base = machine.at("home/.local/share/uv/python/cpython-3.12/bin");
        machine.file("root/.venv/pyvenv.cfg", &format!("home = {}\n", base.display()));
        machine.link("root/.venv/bin/python", &base.join("python3.12").to_string_lossy());
        insta::assert_snapshot!(machine.visible("nowhere"), @r"
        home/.local/share/uv/python/cpython-3.12 -> cpython-3.12.1
        home/.local/share/uv/python/cpython-3.12.1/bin
        home/.local/share/uv/python/cpython-3.12.1/lib
        ");
    }

    #[test]
    fn a_version_manager_is_visible_with_its_versions_and_a_users_programs_one_by_one() {
        let machine = PlannedMachine::new();
        machine.file("home/.pyenv/shims/python3", "");
        machine.file("home/.pyenv/versions/3.12.1/bin/python3", "");
        machine.file("home/bin/uv", "");
        machine.file("home/bin/secret", "");
        machine.file("home/.local/lib/python3.12/site-packages/x.py", "");
        insta::assert_snapshot!(machine.visible("home/.pyenv/shims"), @r"
        home/.local/lib/python3.12
        home/.pyenv/shims
        home/.pyenv/versions
        ");
        insta::assert_snapshot!(machine.visible("home/bin"), @r"
        home/.local/lib/python3.12
        home/bin/uv
        ");
    }

    #[test]
    fn settings_and_data_of_a_version_manager_are_not_visible() {
        let machine = PlannedMachine::new();
        for name in [
            "bin/node",
            "etc/npmrc",
            "lib/node_modules/npm/npmrc",
            "lib/node_modules/npm/cli.js",
        ] {
            machine.file(&format!("home/.nvm/versions/node/v20/{name}"), "");
        }
        machine.link("home/.nvm/versions/node/v20/bin/npm", "../lib/node_modules/npm/cli.js");
        for name in ["bin/redis", "etc/redis.conf", "var/mysql/users.ibd", "Homebrew/.npmrc"] {
            machine.file(&format!("home/.linuxbrew/{name}"), "");
        }
        for name in [
            "1.0/bin/redis",
            "1.0/.bottle/etc/redis.conf",
            "1.0/etc/redis.conf",
            "2.0/bin/redis",
        ] {
            machine.file(&format!("home/.linuxbrew/Cellar/redis/{name}"), "");
        }
        for name in [
            "shims/python3",
            "versions/3.12/bin/python3",
            "versions/3.12/pip.conf",
            "version",
            "pip.conf",
        ] {
            machine.file(&format!("home/.pyenv/{name}"), "");
        }
        machine.file("home/.sdkman/candidates/java/17/bin/java", "");
        machine.file("home/.sdkman/candidates/java/17/conf/security/java.security", "");
        for name in [
            "maven/3.9/bin/mvn",
            "maven/3.9/conf/logging/log.properties",
            "maven/3.9/conf/settings.xml",
            "gradle/8/gradle.properties",
            "gradle/8/lib/gradle.jar",
        ] {
            machine.file(&format!("home/.sdkman/candidates/{name}"), "");
        }
        machine.file("home/.sdkman/etc/config", "");
        machine.link("home/.sdkman/candidates/java/current", "17");
        insta::assert_snapshot!(machine.visible("home/.nvm/versions/node/v20/bin"), @r"
        home/.nvm/versions/node/v20/bin
        home/.nvm/versions/node/v20/lib/node_modules/npm/cli.js
        ");
        insta::assert_snapshot!(machine.visible("home/.linuxbrew/bin"), @r"
        home/.linuxbrew/Cellar/redis/1.0/bin
        home/.linuxbrew/Cellar/redis/2.0
        home/.linuxbrew/bin
        ");
        insta::assert_snapshot!(machine.visible("home/.pyenv/shims"), @r"
        home/.pyenv/shims
        home/.pyenv/version
        home/.pyenv/versions/3.12/bin
        ");
        insta::assert_snapshot!(machine.visible("home/.sdkman/candidates/java/current/bin"), @r"
        home/.sdkman/candidates/gradle/8/lib
        home/.sdkman/candidates/java
        home/.sdkman/candidates/maven/3.9/bin
        home/.sdkman/candidates/maven/3.9/conf/logging
        ");
    }

    #[test]
    fn an_environment_in_the_repository_shows_no_other_projects() {
        let mut machine = PlannedMachine::new();
        machine.file("other/.venv/pyvenv.cfg", "home = /usr/bin\n");
        machine.file("other/.venv/lib/python3.12/os.py", "");
        machine.file("other/.venv/bin/python3", "");
        machine.file("python/lib/python3.12/os.py", "");
        machine.file("python/bin/python3", "");
        let of = |machine: &PlannedMachine, base: &str, path: &str| {
            let text = format!("home = {}\n", machine.at(base).display());
            machine.file("root/.venv/pyvenv.cfg", &text);
            machine.visible(path)
        };
        assert_eq!(of(&machine, "other/.venv/bin", "nowhere"), "");
        assert_eq!(of(&machine, "python/bin", "nowhere"), "");
        let shown = of(&machine, "python/bin", "python/bin");
        assert!(shown.contains("python/lib\n"), "{shown}");
        machine.link("bin/python3", "../python/bin/python3");
        let by_link = of(&machine, "python/bin", "bin");
        assert!(by_link.contains("python/lib\n"), "{by_link}");
        // Nor by a link to its Python.
        std::fs::remove_dir_all(machine.at("root/.venv")).expect("it is there");
        let python = machine.at("other/.venv/bin/python3");
        machine.link("root/.venv/bin/python", &python.to_string_lossy());
        machine.file("root/.venv/pyvenv.cfg", "home = /usr/bin\n");
        let shown = machine.visible("nowhere");
        assert!(!shown.contains("other/.venv/lib"), "{shown}");
        // Nor as a link to the whole, to its folders, or to what says that it is one; the base is usual.
        for links in [
            &[(".venv", "other/.venv")][..],
            &[
                (".venv/pyvenv.cfg", "other/.venv/pyvenv.cfg"),
                (".venv/lib", "other/.venv/lib"),
            ],
            &[
                (".venv/pyvenv.cfg", "other/.venv/pyvenv.cfg"),
                (".venv/bin", "other/.venv/bin"),
            ],
        ] {
            std::fs::remove_dir_all(machine.at("root")).expect("it is there");
            machine.tracked = links.iter().map(|(link, _)| (*link).to_owned()).collect();
            for (link, target) in links {
                machine.link(&format!("root/{link}"), &machine.at(target).to_string_lossy());
            }
            let shown = machine.visible("nowhere");
            assert!(!shown.contains("other/.venv/lib"), "{links:?}: {shown}");
        }
        // An environment that the user works with stays, and so does a link that the user made.
        std::fs::remove_dir_all(machine.at("root")).expect("it is there");
        machine.link("root/.venv", &machine.at("other/.venv").to_string_lossy());
        for (tracked, path) in [(".venv", "other/.venv/bin"), ("other", "nowhere")] {
            machine.tracked = vec![tracked.to_owned()];
            let shown = machine.visible(path);
            assert!(shown.contains("other/.venv/lib\n"), "{tracked}: {shown}");
        }
    }

    #[test]
    fn a_program_that_npm_installed_is_visible_with_its_package() {
        let machine = PlannedMachine::new();
        machine.file("home/.npm-global/lib/node_modules/pnpm/bin/pnpm.cjs", "");
        machine.link("home/.npm-global/bin/pnpm", "../lib/node_modules/pnpm/bin/pnpm.cjs");
        machine.file("home/.npm-global/lib/node_modules/@yarnpkg/cli/bin/yarn.js", "");
        machine.link(
            "home/.npm-global/bin/yarn",
            "../lib/node_modules/@yarnpkg/cli/bin/yarn.js",
        );
        insta::assert_snapshot!(machine.visible("home/.npm-global/bin"), @r"
        home/.npm-global/bin/pnpm -> ../lib/node_modules/pnpm/bin/pnpm.cjs
        home/.npm-global/bin/yarn -> ../lib/node_modules/@yarnpkg/cli/bin/yarn.js
        home/.npm-global/lib/node_modules/@yarnpkg/cli
        home/.npm-global/lib/node_modules/pnpm
        ");
    }

    #[test]
    fn a_repository_cannot_make_anything_else_visible() {
        let machine = PlannedMachine::new();
        machine.file("home/.ssh/bin/id", "secret");
        machine.file("home/.tool/token", "secret");
        machine.file("home/.tool/lib/python3.12/os.py", "");
        machine.file("home/lib/python3.12/os.py", "");
        machine.link(
            "root/.venv/bin/python",
            &machine.at("home/.ssh/bin/id").to_string_lossy(),
        );
        for folder in ["home/.ssh/bin", "home/.tool/bin", "home/bin", "bin"] {
            std::fs::create_dir_all(machine.at(folder)).expect("folders can be made");
            let text = format!("home = {}\n", machine.at(folder).display());
            machine.file("root/.venv/pyvenv.cfg", &text);
            let shown = machine.visible("nowhere");
            assert!(!shown.contains(".ssh") && !shown.contains(".tool"), "{folder}: {shown}");
        }
    }

    #[test]
    fn a_home_is_private_where_it_can_be() {
        for (home, expected) in [
            ("/home/ada", true),
            ("/root", true),
            ("/", false),
            ("/usr/x", false),
            ("/tmp", false),
        ] {
            assert_eq!(is_private_place(Path::new(home)), expected, "{home}");
        }
    }
}
