//! Parses `composer.json`.

use crate::model::{Ecosystem, Manifest};
use crate::package_json::{add_sections, read_object};

/// The sections that hold dependencies, and their groups.
const SECTIONS: [(&str, &str); 2] = [("require", "runtime"), ("require-dev", "dev")];

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Composer", Ecosystem::Php);
    let Some(value) = read_object(&mut manifest, text) else {
        return manifest;
    };
    manifest.name = value["name"].as_str().map(str::to_owned);
    manifest.version = value["version"].as_str().map(str::to_owned);
    manifest.fact("requires PHP", value["require"]["php"].as_str().map(str::to_owned));
    // Names without a vendor belong to the platform, for example `php` and `ext-json`.
    add_sections(&mut manifest, &value, text, &SECTIONS, |name| name.contains('/'));
    manifest
}
