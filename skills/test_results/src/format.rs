//! Names of the formats in recipes and settings.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// Format of a runner's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ResultFormat {
    /// Only the exit status.
    Exit,
    /// Each line of the output is a failure.
    Lines,
    /// Files of JUnit XML.
    Junit,
    /// The output in the Test Anything Protocol.
    Tap,
    /// The output of pytest.
    Pytest,
    /// The output of an npm script: jest, vitest, mocha, node's own runner or TAP.
    Npm,
    /// The output of `cargo test` and `cargo nextest run`.
    Cargo,
    /// The output of `go test -json`.
    Go,
    /// JSON of jest, which vitest writes as well.
    Jest,
    /// JSON of mocha.
    Mocha,
    /// JSON of RSpec.
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

/// The name is not that of a format.
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
