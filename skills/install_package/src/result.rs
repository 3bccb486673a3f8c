//! Reads the result of an installation from the output of pip or npm.

use skill_details::{InstallDetails, InstalledPackage};
use skill_sdk::{Failure, Outcome, RunReport, code};

use crate::{PackageManager, names};

/// Limit for the installed packages in the details.
const INSTALLED_MAX: usize = 1000;
/// Lines from the end of an output that is not understood.
const TAIL_LINES: usize = 25;
/// Limit for a line of an answer in bytes: pip lists every existing version.
const LINE_BYTES_MAX: usize = 300;

/// The answer, or the failure in the words of the specification, if it has some.
pub(crate) fn read_report(
    manager: PackageManager,
    report: &RunReport,
    requested: &[String],
) -> Result<Outcome, Failure> {
    if report.timed_out {
        return Err(Failure::new(
            code::LIMIT,
            format!("`{}` was stopped by the time limit", command_line(report)),
        )
        .with_hint("install fewer packages at a time"));
    }
    if report.exit_code != Some(0) {
        let failure = install_failure(manager, report);
        let notes: String = report.notes.iter().map(|note| format!("\n{note}")).collect();
        return Err(Failure {
            message: format!("{}{notes}", failure.message),
            ..failure
        });
    }
    let lines = match manager {
        PackageManager::Pip => pip_lines(&report.output),
        PackageManager::Npm => npm_lines(&report.output),
    };
    let mut text = format!(
        "INSTALLED in {:.1} s\ncommand: {}\n",
        report.duration_ms as f64 / 1000.0,
        command_line(report)
    );
    text.push_str(&format!("sandbox: {}\n", report.sandbox));
    for note in &report.notes {
        text.push_str(&format!("{note}\n"));
    }
    for line in if lines.is_empty() {
        output_tail(&report.output)
    } else {
        lines
    } {
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str(match manager {
        PackageManager::Pip => {
            "note: pip records nothing in the repository: declare the package in its manifest as well\n"
        }
        PackageManager::Npm => "note: npm records the package in package.json and package-lock.json\n",
    });
    Ok(Outcome::text(text).with_details(&install_details(manager, report, requested)))
}

fn install_details(manager: PackageManager, report: &RunReport, requested: &[String]) -> InstallDetails {
    let (name, files, installed) = match manager {
        PackageManager::Pip => ("pip", Vec::new(), installed_by_pip(&report.output)),
        PackageManager::Npm => (
            "npm",
            vec!["package.json".to_owned(), "package-lock.json".to_owned()],
            Vec::new(),
        ),
    };
    InstallDetails {
        manager: name.to_owned(),
        requested: requested.to_vec(),
        installed,
        files,
    }
}

/// The packages in `Successfully installed six-1.16.0 …`.
fn installed_by_pip(output: &str) -> Vec<InstalledPackage> {
    let lines = output.lines();
    let lists = lines.filter_map(|line| line.strip_prefix("Successfully installed "));
    let packages = lists.flat_map(str::split_whitespace).take(INSTALLED_MAX);
    let named = packages.map(|package| match package.rsplit_once('-') {
        Some((name, version)) => (name, Some(version.to_owned())),
        None => (package, None),
    });
    named
        .map(|(name, version)| InstalledPackage {
            name: name.to_owned(),
            version,
        })
        .collect()
}

fn pip_lines(output: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in output.lines() {
        if let Some(packages) = line.strip_prefix("Successfully installed ") {
            lines.push("installed:".to_owned());
            lines.extend(
                packages
                    .split_whitespace()
                    .map(|package| match package.rsplit_once('-') {
                        Some((name, version)) => format!("  {name} {version}"),
                        None => format!("  {package}"),
                    }),
            );
        } else if line.starts_with("Requirement already satisfied: ") && !line.contains(" (from ") {
            // Dependencies that were installed before are not listed.
            let package = line.trim_start_matches("Requirement already satisfied: ");
            let name = package.split(" in ").next().unwrap_or(package);
            let version = package
                .rsplit_once(" (")
                .map_or("", |(_, version)| version.trim_end_matches(')'));
            lines.push(format!("already there: {name} {version}").trim_end().to_owned());
        } else if line.starts_with("WARNING: ") {
            lines.push(cut_line(line));
        }
    }
    lines
}

fn npm_lines(output: &str) -> Vec<String> {
    let says = |line: &str| {
        [
            "added ",
            "changed ",
            "removed ",
            "up to date",
            "npm warn deprecated",
            "npm WARN deprecated",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    };
    output.lines().filter(|line| says(line)).map(cut_line).collect()
}

fn install_failure(manager: PackageManager, report: &RunReport) -> Failure {
    let output = &report.output;
    if let Some(path) = denied_path(output) {
        return Failure::new(code::DENIED, format!("Permission denied: {path}"))
            .with_hint("install locally: into a virtual environment (.venv) for pip, into node_modules for npm");
    }
    if output.contains("externally-managed-environment") {
        return Failure::new(
            code::DENIED,
            "Permission denied: this Python is managed by the system and takes no packages",
        )
        .with_hint("make a virtual environment in the repository first: python3 -m venv .venv");
    }
    if output.contains("No module named pip") {
        return Failure::new(code::UNAVAILABLE, "ModuleNotFoundError: No module named pip")
            .with_hint("make a virtual environment in the repository first: python3 -m venv .venv");
    }
    let unreachable = [
        "Failed to establish a new connection",
        "getaddrinfo",
        "ENOTFOUND",
        "ECONNREFUSED",
        "EAI_AGAIN",
        "ETIMEDOUT",
        "Cannot connect to proxy",
        "502 Bad Gateway",
    ];
    // Check this first: after these errors, pip ends with "No matching distribution" as well.
    if unreachable.iter().any(|sign| output.contains(sign)) {
        return Failure::new(code::UNAVAILABLE, "the package registry cannot be reached")
            .with_hint("tell the user; installing needs the network");
    }
    match manager {
        PackageManager::Pip => pip_failure(report),
        PackageManager::Npm => npm_failure(report),
    }
}

fn pip_failure(report: &RunReport) -> Failure {
    let missing = report
        .output
        .lines()
        .find_map(|line| line.strip_prefix("ERROR: No matching distribution found for "));
    // Any line of the output could be a sentence of a package.
    if let Some(name) = missing.filter(|name| names::check_name(PackageManager::Pip, name).is_ok()) {
        let versions = report
            .output
            .lines()
            .find_map(|line| line.split_once("(from versions: "));
        let newest: Vec<&str> = versions
            .map(|(_, list)| {
                let newest = list.trim_end_matches(')').rsplit(", ");
                newest.filter(|version| is_version(version)).take(5).collect()
            })
            .unwrap_or_default();
        let hint = match newest.as_slice() {
            [] => "check the name; a package without wheels for this Python cannot be installed here".to_owned(),
            newest => format!("newest versions: {}", newest.join(", ")),
        };
        return Failure::not_found(format!("no package fits `{name}`")).with_hint(hint);
    }
    let conflict = report
        .output
        .lines()
        .find(|line| line.starts_with("ERROR: ") && line.contains("onflict"));
    match conflict {
        Some(line) => Failure::failed(cut_line(line.trim_start_matches("ERROR: ")))
            .with_hint("loosen the versions that were asked for"),
        None => unknown_failure(report),
    }
}

fn npm_failure(report: &RunReport) -> Failure {
    let lines = || {
        report
            .output
            .lines()
            .map(|line| line.trim_start_matches("npm ").trim_start_matches("error ").trim())
    };
    let find = |starts: &[&str]| lines().find(|line| starts.iter().any(|start| line.contains(start)));
    if let Some(line) = find(&["No matching version found", "is not in this registry", "404 Not Found"]) {
        let line = line
            .trim_start_matches("notarget ")
            .trim_start_matches("404 ")
            .trim_start();
        return Failure::not_found(cut_line(line)).with_hint("check the name and the version");
    }
    if let Some(line) = find(&["ERESOLVE"]) {
        return Failure::failed(format!("the versions do not fit together: {}", cut_line(line)))
            .with_hint("ask for a version that fits the other packages, see analyze_dependencies");
    }
    unknown_failure(report)
}

fn unknown_failure(report: &RunReport) -> Failure {
    let ending = match report.exit_code {
        Some(status) => format!("exit status {status}"),
        None => "ended by a signal".to_owned(),
    };
    Failure::failed(format!(
        "`{}` failed ({ending}):\n{}",
        command_line(report),
        output_tail(&report.output).join("\n")
    ))
}

/// The path that could not be written: `[Errno 13] Permission denied: '/usr/lib'`, `EACCES: permission denied, mkdir
/// '/x'`.
fn denied_path(output: &str) -> Option<String> {
    let line = output.lines().find(|line| {
        line.contains("Permission denied: '")
            || line.contains("permission denied, ")
            || line.contains("Permission denied: \"")
    })?;
    let quote = if line.contains('\'') { '\'' } else { '"' };
    let from = line.to_ascii_lowercase().find("permission denied")?;
    let mut quoted = line[from..].split(quote);
    quoted.nth(1).filter(|path| is_place(path)).map(str::to_owned)
}

/// True for an absolute path of a strict grammar, which no sentence matches.
fn is_place(path: &str) -> bool {
    path.starts_with('/') && path.len() <= LINE_BYTES_MAX && path.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_version(version: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".!+_-".contains(&byte);
    version.starts_with(|first: char| first.is_ascii_digit()) && version.len() <= 40 && version.bytes().all(is_plain)
}

fn command_line(report: &RunReport) -> String {
    report.command.join(" ")
}

fn output_tail(output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..]
        .iter()
        .map(|line| cut_line(line))
        .collect()
}

fn cut_line(line: &str) -> String {
    match skill_sdk::text::clip(line.trim_end(), LINE_BYTES_MAX) {
        (line, 0) => line.to_owned(),
        (kept, _) => format!("{kept}…"),
    }
}
