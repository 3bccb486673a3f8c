//! Recognises files with text of other people by their paths: packages, logs and lock files.
//!
//! A conversation that has read such a file contains untrusted text. `origins` decides what names do not say.

use crate::fold_case;

/// Names of directories with files of other people, at any depth; lower case.
const DIRECTORIES: [&str; 28] = [
    "node_modules",
    "bower_components",
    "jspm_packages",
    "site-packages",
    "dist-packages",
    "__pypackages__",
    "vendor",
    "vendored",
    "_vendor",
    "third_party",
    "third-party",
    "thirdparty",
    "3rdparty",
    "venv",
    ".venv",
    "virtualenv",
    ".tox",
    ".nox",
    ".eggs",
    ".bundle",
    ".yarn",
    ".pnpm-store",
    ".cargo",
    ".gradle",
    ".m2",
    "pods",
    "carthage",
    "godeps",
];

/// Names of such directories that count only at the root; lower case. Deeper down they are common names for the user's
/// own code, such as `django/contrib` and `src/clients/external`.
const ROOT_DIRECTORIES: [&str; 7] = [
    "contrib",
    "deps",
    "extern",
    "external",
    "externals",
    "submodules",
    "subprojects",
];

/// Lock files whose names do not end as in [`LOCK_ENDINGS`]; lower case.
const LOCK_FILES: [&str; 15] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "bun.lockb",
    "go.sum",
    "go.work.sum",
    "packages.lock.json",
    "package.resolved",
    ".terraform.lock.hcl",
    "pylock.toml",
    "gems.locked",
    "conda-lock.yml",
    "dub.selections.json",
    "cabal.project.freeze",
    "verification-metadata.xml",
];

const LOCK_ENDINGS: [&str; 3] = [".lock", ".lockfile", ".conda-lock.yml"];

/// Lock files of Julia, which accepts only this spelling. `manifest.toml` is a common name for files of users.
const JULIA_LOCK_FILES: [&str; 2] = ["Manifest.toml", "JuliaManifest.toml"];

/// The place of other people to which a path belongs: a directory of packages with its `/`, or the whole path of a log
/// or a lock file. `None` for the user's own files.
pub fn find_place(path: &str) -> Option<&str> {
    find_directory(path).or_else(|| has_foreign_name(crate::file_role::file_name(path)).then_some(path))
}

fn has_foreign_name(spelling: &str) -> bool {
    let name = fold_case(spelling);
    is_log(&name) || is_lock_file(&name) || JULIA_LOCK_FILES.contains(&spelling)
}

/// The outermost directory of packages that contains a path, with its `/`.
pub fn find_directory(path: &str) -> Option<&str> {
    let mut start = 0;
    path.match_indices('/').find_map(|(end, _)| {
        let (name, is_at_root) = (fold_case(&path[start..end]), start == 0);
        start = end + 1;
        let is_foreign = DIRECTORIES.contains(&&*name) || is_at_root && ROOT_DIRECTORIES.contains(&&*name);
        is_foreign.then_some(&path[..=end])
    })
}

/// Lock files hold names and version texts from package registries.
fn is_lock_file(name: &str) -> bool {
    let ends_with = |ending: &&str| name.strip_suffix(ending).is_some_and(|stem| !stem.is_empty());
    let is_of_python = || name.starts_with("pylock.") && name.ends_with(".toml");
    LOCK_FILES.contains(&name) || LOCK_ENDINGS.iter().any(ends_with) || is_of_python()
}

/// `x.log`, `x.log.1`, `x.log.2024-01-01`: logs hold text that others sent to a program.
fn is_log(name: &str) -> bool {
    let name = name.strip_prefix('.').unwrap_or(name);
    let mut endings = name.split('.').skip(1);
    endings.any(|ending| ending == "log" || ending.starts_with("log-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_others_are_known_by_their_names() {
        for (path, place) in [
            ("node_modules/left-pad/README.md", "node_modules/"),
            ("packages/a/node_modules/b/index.js", "packages/a/node_modules/"),
            (
                "django/contrib/admin/static/admin/js/vendor/jquery.js",
                "django/contrib/admin/static/admin/js/vendor/",
            ),
            (".venv/lib/python3.12/site-packages/x.py", ".venv/"),
            ("Third_Party/zlib/zlib.h", "Third_Party/"),
            ("logs/server.log", "logs/server.log"),
            ("server.log.1", "server.log.1"),
            ("app.LOG-20240101", "app.LOG-20240101"),
            ("logs/auth.login.log", "logs/auth.login.log"),
            ("x.logger.log.1", "x.logger.log.1"),
            ("package-lock.json", "package-lock.json"),
            ("app/Cargo.lock", "app/Cargo.lock"),
            ("app/go.sum", "app/go.sum"),
            ("pylock.toml", "pylock.toml"),
            ("pylock.dev.toml", "pylock.dev.toml"),
            ("gems.locked", "gems.locked"),
            ("conda-lock.yml", "conda-lock.yml"),
            ("dev.conda-lock.yml", "dev.conda-lock.yml"),
            ("buildscript-gradle.lockfile", "buildscript-gradle.lockfile"),
            ("dub.selections.json", "dub.selections.json"),
            ("cabal.project.freeze", "cabal.project.freeze"),
            ("x/Manifest.toml", "x/Manifest.toml"),
            ("gradle/verification-metadata.xml", "gradle/verification-metadata.xml"),
            ("vendor/x/Cargo.lock", "vendor/"),
            ("vendor/x/main.rs", "vendor/"),
            ("external/zlib/zlib.h", "external/"),
            ("Extern/src/vendor/zlib.h", "Extern/"),
            ("deps/x.c", "deps/"),
            ("contrib/x.c", "contrib/"),
        ] {
            assert_eq!(find_place(path), Some(place), "{path}");
        }
        for path in [
            "",
            "src/main.py",
            "vendor",
            "vendors/list.py",
            "src/vendor.py",
            "django/contrib/admin/apps.py",
            "src/clients/external/api.py",
            "wit/deps/x.wit",
            "logs/rotate.py",
            "login.py",
            "changelog.md",
            ".log",
            "a.logger",
            ".lock",
            "locks.py",
            "manifest.toml",
            ".lockfile",
            "pylock.py",
            "Cargo.toml",
        ] {
            assert_eq!(find_place(path), None, "{path}");
        }
    }
}
