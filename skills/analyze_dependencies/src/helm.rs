//! Parses `Chart.yaml` of Helm.

use crate::model::{Dependency, Ecosystem, Manifest};
use crate::yaml_lines::read_lines;

pub(crate) fn parse(path: &str, text: &str) -> Manifest {
    let mut manifest = Manifest::new(path, "Helm chart", Ecosystem::Helm);
    let mut section = "";
    for line in read_lines(text) {
        if line.column == 0 && !line.is_element {
            section = line.key;
            let value = Some(line.value.to_owned()).filter(|value| !value.is_empty());
            match section {
                "name" => manifest.name = value,
                "version" => manifest.version = value,
                "appVersion" => manifest.fact("version of the application", value),
                "kubeVersion" => manifest.fact("requires Kubernetes", value),
                _ => {}
            }
            continue;
        }
        if section != "dependencies" {
            continue;
        }
        if line.is_element {
            // The name may follow in a later line.
            manifest
                .dependencies
                .push(Dependency::new("", "", "runtime", line.number));
        }
        let Some(last) = manifest.dependencies.last_mut() else {
            continue;
        };
        last.last_line = line.number;
        match line.key {
            "name" => last.name = line.value.to_owned(),
            "version" if !line.value.is_empty() => last.constraint = line.value.to_owned(),
            "repository" => {
                let repository = Dependency::new("", line.value, "", 0).constraint;
                last.note = Some(format!("from {repository}"));
            }
            "condition" => last.group = "optional".to_owned(),
            _ => {}
        }
    }
    manifest.dependencies.retain(|dependency| !dependency.name.is_empty());
    manifest
}
