//! Recognises files that decide how a project's tests run, by their names: configuration of test runners, and files
//! that replace a runner.
//!
//! Generated tests must not contain such a file, and test results name one that was edited. The content of files is not
//! read.

use tool_repository::file_role;
use tool_repository::path;

/// Names of files that a runner, or its interpreter, reads before it runs tests.
const NAMES: [&str; 15] = [
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "tox.toml",
    "setup.cfg",
    "pyproject.toml",
    "sitecustomize.py",
    "usercustomize.py",
    "pytest.py",
    "package.json",
    ".npmrc",
    ".taprc",
    ".jestrc",
];

/// Beginnings of such names, with any extension.
const STEMS: [&str; 7] = [
    "jest.config.",
    "vitest.config.",
    "vitest.workspace.",
    "vite.config.",
    ".mocharc",
    "ava.config.",
    "playwright.config.",
];

/// True for files that can switch tests off, or change what runs them. A `conftest.py` among the tests only serves
/// these tests.
pub fn is_configuration(file: &str) -> bool {
    let lower = file.to_lowercase();
    let (directory, name) = path::split_path(&lower);
    let replaces_runner = matches!(lower.split('/').next(), Some("pytest" | "_pytest")) && !directory.is_empty();
    let is_outside = || !file_role::is_test(&path::join_path(directory, "file.py"));
    NAMES.contains(&name)
        || STEMS.iter().any(|stem| name.starts_with(stem))
        || (name == "conftest.py" && is_outside())
        || replaces_runner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_told_from_tests_and_what_serves_them() {
        for file in [
            "pytest.ini",
            "tests/pytest.ini",
            "Setup.cfg",
            "conftest.py",
            "src/conftest.py",
            "jest.config.mjs",
            "web/.mocharc.yml",
            "package.json",
            "pytest/__init__.py",
        ] {
            assert!(is_configuration(file), "{file}");
        }
        for file in [
            "tests/conftest.py",
            "tests/test_a.py",
            "pytest_notes.md",
            "jest.test.js",
        ] {
            assert!(!is_configuration(file), "{file}");
        }
    }
}
