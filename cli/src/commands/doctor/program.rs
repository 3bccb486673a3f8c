//! The program itself: its version, the package manager that installed it, and the command that updates it.
//!
//! The path of the program tells the package manager; no server is asked.

use std::path::{Path, PathBuf};

use super::CheckResult;

/// Name in the Python and npm registries.
const PACKAGE: &str = "tool-assistant";

pub(super) fn check_program() -> CheckResult {
    let version = env!("TOOL_VERSION");
    let program = std::env::current_exe().unwrap_or_default();
    let detail = match update_command(&program, &files_of) {
        Some(command) => format!("{version}; update it with `{command}`"),
        None => format!("{version}; to update it, install the next release the same way"),
    };
    CheckResult::ok("program", detail)
}

/// Paths in a folder; empty if it cannot be read.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The command that updates a program at this path. `files` lists a folder.
fn update_command(program: &Path, files: &dyn Fn(&Path) -> Vec<PathBuf>) -> Option<String> {
    let has = |name: &str| program.iter().any(|part| part == name);
    let prefix = program.parent()?.parent()?;
    let holds = |folder: &Path, name: &str| files(folder).iter().any(|path| path.ends_with(name));
    if program.starts_with("/nix/store") {
        return Some("nix profile upgrade tool".to_owned());
    }
    if has("Cellar") {
        return Some("brew upgrade tool".to_owned());
    }
    if has("node_modules") {
        return Some(update_by_npm(program));
    }
    if has("uv") && has("tools") {
        return Some(format!("uv tool upgrade {PACKAGE}"));
    }
    // The cache of uv.
    if has("archive-v0") {
        return Some(format!("uvx --from {PACKAGE}@latest tool"));
    }
    if has("pipx") {
        return Some(format!("pipx upgrade {PACKAGE}"));
    }
    if is_from_wheel(prefix, files) {
        return Some(format!("pip install --upgrade {PACKAGE}"));
    }
    if prefix == Path::new("/usr") && holds(Path::new("/var/lib/dpkg/info"), "tool.list") {
        return Some("sudo apt-get install --only-upgrade tool".to_owned());
    }
    if prefix == Path::new("/usr") && !files(Path::new("/var/lib/rpm")).is_empty() {
        return Some("sudo dnf upgrade tool".to_owned());
    }
    if program
        .ancestors()
        .any(|folder| holds(&folder.join("scripts"), "build"))
    {
        return Some("git pull && scripts/build".to_owned());
    }
    holds(&prefix.join("share/doc/tool"), "LICENSES.txt").then(|| "sh install.sh".to_owned())
}

/// Global packages are in `lib/node_modules`, and those of npx in its cache. Other packages belong to a project.
fn update_by_npm(program: &Path) -> String {
    let parts: Vec<&str> = program.iter().filter_map(|part| part.to_str()).collect();
    let is_at = |above: &str| parts.windows(2).any(|pair| pair == [above, "node_modules"]);
    if parts.contains(&"_npx") {
        format!("npx {PACKAGE}@latest")
    } else if is_at("lib") {
        format!("npm install --global {PACKAGE}@latest")
    } else {
        format!("npm install {PACKAGE}@latest")
    }
}

/// True if the Python environment around the program has the package.
fn is_from_wheel(prefix: &Path, files: &dyn Fn(&Path) -> Vec<PathBuf>) -> bool {
    let module = format!("{}-", PACKAGE.replace('-', "_"));
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&module) && name.ends_with(".dist-info")
    };
    // Fedora has a separate folder for packages with native code, and Debian's Python another name in it.
    let of_versions = ["lib", "lib64"].map(|name| files(&prefix.join(name))).concat();
    let has_ours = |version: &PathBuf| {
        let folders = ["site-packages", "dist-packages"].map(|name| version.join(name));
        folders.iter().any(|folder| files(folder).iter().any(is_ours))
    };
    of_versions.iter().any(has_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_manager_is_known_by_the_path_of_the_program() {
        let machine = [
            "/venv/lib/python3.11",
            "/venv/lib/python3.11/site-packages/tool_assistant-0.1.0.dist-info",
            "/usr/local/lib/python3.11",
            "/usr/local/lib/python3.11/dist-packages/tool_assistant-0.1.0.dist-info",
            "/opt/python/lib64/python3.13",
            "/opt/python/lib64/python3.13/site-packages/tool_assistant-0.1.0.dist-info",
            "/var/lib/dpkg/info/tool.list",
            "/home/u/src/tool/scripts/build",
            "/home/u/.local/share/doc/tool/LICENSES.txt",
        ];
        let files = |folder: &Path| {
            let paths = machine.iter().map(PathBuf::from);
            paths.filter(|path| path.parent() == Some(folder)).collect::<Vec<_>>()
        };
        for (program, command) in [
            ("/usr/bin/tool", Some("sudo apt-get install --only-upgrade tool")),
            ("/venv/bin/tool", Some("pip install --upgrade tool-assistant")),
            (
                "/home/u/.local/share/uv/tools/tool-assistant/bin/tool",
                Some("uv tool upgrade tool-assistant"),
            ),
            (
                "/usr/lib/node_modules/tool-assistant/node_modules/tool-assistant-linux-x64/tool",
                Some("npm install --global tool-assistant@latest"),
            ),
            (
                "/home/u/app/node_modules/tool-assistant-linux-x64/tool",
                Some("npm install tool-assistant@latest"),
            ),
            (
                "/home/u/.npm/_npx/3f1b/node_modules/tool-assistant-linux-x64/tool",
                Some("npx tool-assistant@latest"),
            ),
            (
                "/home/u/.cache/uv/archive-v0/x7Qd/bin/tool",
                Some("uvx --from tool-assistant@latest tool"),
            ),
            ("/usr/local/bin/tool", Some("pip install --upgrade tool-assistant")),
            ("/opt/python/bin/tool", Some("pip install --upgrade tool-assistant")),
            ("/home/u/.local/bin/tool", Some("sh install.sh")),
            ("/home/u/src/tool/target/debug/tool", Some("git pull && scripts/build")),
            ("/nix/store/abc-tool-0.1.0/bin/tool", Some("nix profile upgrade tool")),
            ("/opt/elsewhere/bin/tool", None),
        ] {
            let found = update_command(Path::new(program), &files);
            assert_eq!(found.as_deref(), command, "{program}");
        }
    }
}
