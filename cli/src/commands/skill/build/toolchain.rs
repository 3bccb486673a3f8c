//! Programs that compile Python and JavaScript to components: one version of each and of its dependencies, pinned by
//! digest, the versions that this program was tested with.
//!
//! A program on the `PATH` is used if it has that version. Otherwise pip or npm installs it, from the pins in
//! `skills/sdk/toolchain`, into a separate folder in `~/.tool/toolchains`, with a notice. Nothing of the project
//! decides what is installed.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::SkillBuilder;
use crate::error::Error;

macro_rules! pins {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../../skills/sdk/toolchain/", $name)),
        )
    };
}

pub(super) struct ComponentCompiler {
    name: &'static str,
    /// The one version.
    version: &'static str,
    /// Size and installer, for people.
    size: &'static str,
    /// Path of the program within its folder.
    program: &'static str,
    /// The files that pin the installation: the last one names every package and its digest.
    pins: &'static [(&'static str, &'static str)],
    /// Installs it into a new folder that contains the pin files.
    install: fn(&SkillBuilder, &Path) -> Result<(), Error>,
}

pub(super) const PYTHON: ComponentCompiler = ComponentCompiler {
    name: "componentize-py",
    version: "0.25.1",
    size: "50 MB, by pip",
    program: "bin/componentize-py",
    pins: &[pins!("python.txt")],
    install: |builder, folder| {
        let python = builder.program("python3", "install Python 3.10 or newer, with its module venv")?;
        builder.shown(&python, &["-m", "venv", "."], folder)?;
        let pip = "-m pip install --disable-pip-version-check --only-binary :all: --require-hashes -r python.txt";
        let pip: Vec<&str> = pip.split(' ').collect();
        builder.shown(&folder.join("bin/python"), &pip, folder)
    },
};

pub(super) const JAVASCRIPT: ComponentCompiler = ComponentCompiler {
    name: "componentize-js",
    version: "0.23.0",
    size: "250 MB, by npm",
    program: "node_modules/.bin/componentize-js",
    pins: &[pins!("package.json"), pins!("package-lock.json")],
    install: |builder, folder| {
        let npm = builder.program("npm", "install Node 20 or newer, with npm")?;
        // `npm ci` requires that the lock file also lists packages for other systems.
        let install = ["install", "--ignore-scripts", "--no-audit", "--no-fund"];
        builder.shown(&npm, &install, folder)
    },
};

impl ComponentCompiler {
    /// The program; installs it if it is missing.
    pub(super) fn ready(&self, builder: &SkillBuilder) -> Result<PathBuf, Error> {
        if let Some(program) = tool_sandbox::build::find_program(self.name, &builder.environment)
            && self.is_right(builder, &program)
        {
            return Ok(program);
        }
        let toolchains = builder.home.join("toolchains");
        let folder = toolchains.join(format!("{}-{}", self.name, self.version));
        let failed = |error: std::io::Error| Error::on_file("Toolchain", &folder, &error);
        let mut private = DirBuilder::new();
        private
            .recursive(true)
            .mode(0o700)
            .create(&toolchains)
            .map_err(failed)?;
        // Another build may be installing the same program.
        let lock = File::create(toolchains.join(format!("{}.lock", self.name))).map_err(failed)?;
        builder.wait_for(&lock).map_err(failed)?;
        let (program, ready) = (folder.join(self.program), folder.join("ready"));
        let pins = self.pins.last().map_or("", |(_, pins)| pins);
        if !fs::read_to_string(&ready).is_ok_and(|of| of == pins) {
            if folder.exists() {
                fs::remove_dir_all(&folder).map_err(failed)?;
            }
            private.create(&folder).map_err(failed)?;
            let notice = format!(
                "{} {} is not there: installing it ({})",
                self.name, self.version, self.size
            );
            builder
                .output
                .notice(&notice, Some(&format!("it goes to {}", folder.display())));
            for (name, text) in self.pins {
                fs::write(folder.join(name), text).map_err(failed)?;
            }
            (self.install)(builder, &folder)?;
            fs::write(&ready, pins).map_err(failed)?;
        }
        Ok(program)
    }

    /// True if a program on the `PATH` has the version.
    fn is_right(&self, builder: &SkillBuilder, program: &Path) -> bool {
        let said = builder.quiet(program, &["--version"]);
        said.is_ok_and(|said| said.output.split_whitespace().any(|word| word == self.version))
    }
}

/// Interval at which a build that waits for another build's installation checks for its own cancellation.
const WAIT: Duration = Duration::from_millis(100);

impl SkillBuilder {
    /// Waits until no other build installs, or until this build is cancelled.
    fn wait_for(&self, lock: &File) -> std::io::Result<()> {
        loop {
            match lock.try_lock() {
                Err(TryLockError::WouldBlock) if self.cancel.is_cancelled() => {
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(WAIT),
                Err(TryLockError::Error(error)) => return Err(error),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Runs an installer and shows its output.
    fn shown(&self, program: &Path, arguments: &[&str], directory: &Path) -> Result<(), Error> {
        let output = self.output;
        self.run_with(program, arguments, directory, &|line| output.progress(line))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_the_version_that_is_named_and_nothing_floats() {
        let (_, python) = PYTHON.pins[0];
        assert!(python.contains(&format!("\n{}=={} ", PYTHON.name, PYTHON.version)));
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("it is JSON");
        let (_, lock) = JAVASCRIPT.pins[1];
        let lock = parsed(lock);
        let packages = lock["packages"].as_object().expect("it names packages");
        let maker = &packages["node_modules/@bytecodealliance/componentize-js"];
        assert_eq!(maker["version"], JAVASCRIPT.version);
        let loose = packages.iter().filter(|(name, package)| {
            let is_pinned = package["integrity"].is_string() && package["version"].is_string();
            !name.is_empty() && !is_pinned
        });
        assert_eq!(loose.map(|(name, _)| name).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(
            lock["packages"][""]["dependencies"],
            parsed(JAVASCRIPT.pins[0].1)["dependencies"]
        );
    }
}
