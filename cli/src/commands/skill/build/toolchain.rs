//! What makes components of Python and JavaScript: one version of each, the one that this program was tested with.
//!
//! One that stands on the `PATH` is taken where it is of that version. Else it is installed by name, by pip or npm, into
//! a folder of its own in `~/.tool/toolchains`, which is said. Nothing of the project decides what is installed.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::Builder;
use crate::error::Error;

/// A program that makes components.
struct Maker {
    /// The program.
    name: &'static str,
    /// The one version.
    version: &'static str,
    /// What it takes, for people.
    size: &'static str,
    /// Where the program is in its folder.
    program: &'static str,
    /// Installs it into a new folder.
    install: fn(&Builder, &Path, &Maker) -> Result<(), Error>,
}

const PYTHON: Maker = Maker {
    name: "componentize-py",
    version: "0.25.1",
    size: "50 MB, by pip",
    program: "bin/componentize-py",
    install: |builder, folder, maker| {
        let python = builder.program("python3", "install Python 3.10 or newer, with its module venv")?;
        let environment = folder.to_string_lossy();
        builder.shown(&python, &["-m", "venv", &environment], folder)?;
        let package = format!("componentize-py=={}", maker.version);
        let pip = [
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
            &package,
        ];
        builder.shown(&folder.join("bin/python"), &pip, folder)
    },
};

const JAVASCRIPT: Maker = Maker {
    name: "componentize-js",
    version: "0.23.0",
    size: "250 MB, by npm",
    program: "node_modules/.bin/componentize-js",
    install: |builder, folder, maker| {
        let npm = builder.program("npm", "install Node 20 or newer, with npm")?;
        let package = format!("@bytecodealliance/componentize-js@{}", maker.version);
        let place = folder.to_string_lossy();
        let install = [
            "install",
            "--prefix",
            &place,
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            &package,
        ];
        builder.shown(&npm, &install, folder)
    },
};

/// The program for Python.
pub(super) fn componentize_py(builder: &Builder) -> Result<PathBuf, Error> {
    PYTHON.ready(builder)
}

/// The program for JavaScript.
pub(super) fn componentize_js(builder: &Builder) -> Result<PathBuf, Error> {
    JAVASCRIPT.ready(builder)
}

impl Maker {
    /// The program, installed where it is not there.
    fn ready(&self, builder: &Builder) -> Result<PathBuf, Error> {
        if let Some(program) = host::process::build::find(self.name, &builder.environment)
            && self.is_right(builder, &program)
        {
            return Ok(program);
        }
        let toolchains = builder.home.join("toolchains");
        let folder = toolchains.join(format!("{}-{}", self.name, self.version));
        let failed = |error: std::io::Error| Error::file("Toolchain", &folder, &error);
        let mut private = DirBuilder::new();
        private
            .recursive(true)
            .mode(0o700)
            .create(&toolchains)
            .map_err(failed)?;
        // Another build may be installing the same.
        let lock = File::create(toolchains.join(format!("{}.lock", self.name))).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let (program, ready) = (folder.join(self.program), folder.join("ready"));
        if !ready.is_file() {
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
            (self.install)(builder, &folder, self)?;
            File::create(&ready).map_err(failed)?;
        }
        Ok(program)
    }

    /// True where a program of the `PATH` is of the version.
    fn is_right(&self, builder: &Builder, program: &Path) -> bool {
        let said = builder.quiet(program, &["--version"]);
        said.is_ok_and(|said| said.output.split_whitespace().any(|word| word == self.version))
    }
}

impl Builder {
    /// Runs an installer and shows what it says.
    fn shown(&self, program: &Path, arguments: &[&str], directory: &Path) -> Result<(), Error> {
        let output = self.output;
        self.run_with(program, arguments, directory, &|line| output.progress(line))?;
        Ok(())
    }
}
