//! Names of the formats, as recipes and users write them.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// Form in which a runner leaves its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ResultFormat {
    /// The exit status alone.
    Exit,
    /// Each line of the output is a failure; no output is none.
    Lines,
    /// Files of JUnit XML.
    Junit,
    /// The Test Anything Protocol on the output.
    Tap,
    /// The output of pytest.
    Pytest,
    /// The output of a script of npm: jest, vitest, mocha, node's own runner or TAP.
    Npm,
    /// The output of `cargo test` and `cargo nextest run`.
    Cargo,
    /// `go test -json`.
    Go,
    /// jest's JSON, which vitest writes as well.
    Jest,
    /// mocha's JSON.
    Mocha,
    /// RSpec's JSON.
    Rspec,
    /// The output of Python's `unittest`.
    Unittest,
    /// The output of minitest.
    Minitest,
    /// The output of PHPUnit.
    Phpunit,
    /// The output of ExUnit.
    Exunit,
    /// The output of `dotnet test`.
    Dotnet,
    /// The output of CTest.
    Ctest,
}

/// A name that stands for no format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat(pub String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        write!(
            formatter,
            "`{}` is no result format: they are {}",
            self.0.escape_debug(),
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownFormat {}

const NAMES: [(&str, ResultFormat); 18] = [
    ("exit", ResultFormat::Exit),
    ("lines", ResultFormat::Lines),
    ("junit", ResultFormat::Junit),
    ("tap", ResultFormat::Tap),
    ("json:go", ResultFormat::Go),
    ("json:jest", ResultFormat::Jest),
    ("json:vitest", ResultFormat::Jest),
    ("json:mocha", ResultFormat::Mocha),
    ("json:rspec", ResultFormat::Rspec),
    ("text:pytest", ResultFormat::Pytest),
    ("text:npm", ResultFormat::Npm),
    ("text:cargo", ResultFormat::Cargo),
    ("text:unittest", ResultFormat::Unittest),
    ("text:minitest", ResultFormat::Minitest),
    ("text:phpunit", ResultFormat::Phpunit),
    ("text:exunit", ResultFormat::Exunit),
    ("text:dotnet", ResultFormat::Dotnet),
    ("text:ctest", ResultFormat::Ctest),
];

impl FromStr for ResultFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, format)| *format)
            .ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

impl TryFrom<String> for ResultFormat {
    type Error = UnknownFormat;

    fn try_from(text: String) -> Result<Self, UnknownFormat> {
        text.parse()
    }
}
