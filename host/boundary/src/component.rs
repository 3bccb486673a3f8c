//! Reads the imports of a component from its bytes, before anything is compiled.
//!
//! A component may import the contract's interfaces and those of WASI 0.2 that this host implements; anything else is
//! refused by name. Limits on size are checked here too, because the compiler's memory grows with them.

use std::collections::BTreeMap;

use serde::Serialize;
use wasmparser::component_types::ComponentEntityType;
use wasmparser::{Encoding, Parser, Payload, ValidPayload, Validator};

use crate::limits;
use tool_core::api::Effect;

/// Size of one function body of a foreign component. Memory and time of the compiler grow faster than the function;
/// the interpreter loops of CPython and SpiderMonkey are below 300 kB.
const COMPONENT_FUNCTION_BYTES_MAX: usize = 1024 * 1024;

/// Version of the contract that this host implements. It accepts components for every version with this major number,
/// if it has each interface that they import.
pub const CONTRACT: &str = "1.0.0";

/// Numbers of a version of the contract: major, minor, patch.
type ContractVersion = [u64; 3];

/// Parses a version of the contract; `None` for a pre-release, with which no version is compatible.
fn parse_version(version: &str) -> Option<ContractVersion> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    let version = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(version)
}

/// True for a version of the contract that this host accepts.
pub fn accepts_contract(version: &str) -> bool {
    let major = |version: &str| parse_version(version).map(|[major, ..]| major);
    major(version).is_some() && major(version) == major(CONTRACT)
}

/// True for a version of the contract that is newer than this host's.
fn is_newer(version: &str) -> bool {
    parse_version(version) > parse_version(CONTRACT)
}

/// Interfaces of WASI that the linker provides, in any version 0.2.
const WASI: [&str; 27] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// Interfaces of the contract that need no effect.
const FREE: [&str; 3] = ["types", "log", "answer"];

/// Interfaces of the contract with the effect that each needs.
const EFFECTS: [(&str, Effect); 10] = [
    ("repository", Effect::ReadRepository),
    ("bulk", Effect::ReadRepository),
    ("symbols", Effect::ReadRepository),
    ("search", Effect::ReadRepository),
    ("proposal", Effect::WriteRepository),
    ("git-read", Effect::ReadGit),
    ("git-history", Effect::ReadGit),
    ("git-commit", Effect::CommitGit),
    ("tests", Effect::RunProcess),
    ("packages", Effect::Install),
];

/// An interface of WASI that needs an effect. The effect may have an argument, such as a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OutsideInterface {
    name: &'static str,
    /// Its version, or the beginning of every accepted version. Of a draft, one exact version is accepted.
    version: &'static str,
    is_exact: bool,
    /// Names of the effects, without arguments, of which one is needed.
    effects: &'static [&'static str],
}

const HTTP: [&str; 2] = ["http", "http-write"];

const OUTSIDE: [OutsideInterface; 4] = [
    OutsideInterface {
        name: "wasi:http/types",
        version: "0.2.",
        is_exact: false,
        effects: &HTTP,
    },
    OutsideInterface {
        name: "wasi:http/outgoing-handler",
        version: "0.2.",
        is_exact: false,
        effects: &HTTP,
    },
    OutsideInterface {
        name: "wasi:config/store",
        version: "0.2.0-rc.1",
        is_exact: true,
        effects: &["config"],
    },
    OutsideInterface {
        name: "wasi:keyvalue/store",
        version: "0.2.0-draft",
        is_exact: true,
        effects: &["store"],
    },
];

impl OutsideInterface {
    /// Finds the interface of an import, in a version that this host accepts.
    fn find(interface: &str, version: &str) -> Option<&'static Self> {
        let is_accepted = |known: &&Self| {
            if known.is_exact {
                known.version == version
            } else {
                version.starts_with(known.version)
            }
        };
        OUTSIDE.iter().filter(|known| known.name == interface).find(is_accepted)
    }

    fn is_declared(&self, declared: &[Effect]) -> bool {
        declared.iter().any(|effect| self.effects.contains(&effect.name()))
    }
}

/// Imports of a component that need an effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surface {
    /// Imported interfaces of the contract by the effect that they need.
    imports: BTreeMap<Effect, &'static str>,
    /// Imported interfaces of WASI that need an effect.
    outside: Vec<&'static OutsideInterface>,
    /// Newest version of the contract that it names, if that is newer than this host's.
    newer: Option<String>,
}

impl Surface {
    /// Explains why a component does not link, with the version that it needs if that is newer than this host's.
    pub(crate) fn explain_link(&self, error: String) -> String {
        match &self.newer {
            Some(version) => format!("it needs tool:skill@{version}, and this host has tool:skill@{CONTRACT}: {error}"),
            None => error,
        }
    }

    /// Refuses imports that the declared effects do not cover.
    ///
    /// # Errors
    ///
    /// The first such import, as the end of a sentence.
    pub fn check_effects(&self, declared: &[Effect]) -> Result<(), String> {
        if let Some((effect, interface)) = self.imports.iter().find(|(effect, _)| !declared.contains(effect)) {
            return Err(format!(
                "it imports `tool:skill/{interface}` without declaring the effect `{effect}`"
            ));
        }
        match self.outside.iter().find(|outside| !outside.is_declared(declared)) {
            Some(outside) => Err(format!(
                "it imports `{}` without declaring the effect `{}`",
                outside.name,
                outside.effects.join("` or `")
            )),
            None => Ok(()),
        }
    }

    /// Finds a declared effect whose interface the component does not import: the code cannot use it. Only the build of
    /// the built-in skills asks.
    pub fn unused_effect(&self, declared: &[Effect]) -> Option<(Effect, &'static str)> {
        EFFECTS
            .iter()
            // These two need no interface: a skill reads `/repo` and writes `/stage` as files.
            .filter(|(_, effect)| !matches!(effect, Effect::ReadRepository | Effect::WriteRepository))
            .find(|(_, effect)| declared.contains(effect) && !self.imports.contains_key(effect))
            .map(|&(interface, effect)| (effect, interface))
    }
}

/// Versions, imports and exports of a component. They are read without compiling or running it, even if it is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Interfaces {
    /// Versions of the contract that it was built for, such as `tool:skill@1.0.0`; usually one.
    pub worlds: Vec<String>,
    /// Names of the interfaces that it imports.
    pub imports: Vec<String>,
    /// Names of the interfaces that it exports.
    pub exports: Vec<String>,
}

/// Reads a component as far as it can be parsed.
pub fn read_interfaces(wasm: &[u8]) -> Interfaces {
    let mut found = Interfaces::default();
    if wasm.len() as u64 > limits::COMPONENT_BYTES_MAX || !wasm.starts_with(MAGIC) {
        return found;
    }
    let mut depth = 0_u32;
    // The sections before the first unreadable one are still shown.
    for payload in Parser::new(0).parse_all(wasm).map_while(Result::ok) {
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                let names = section.into_iter().map_while(Result::ok).map(|import| import.name.name);
                found.imports.extend(names.map(str::to_owned));
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                let names = section.into_iter().map_while(Result::ok).map(|export| export.name.name);
                found.exports.extend(names.map(str::to_owned));
            }
            _ => {}
        }
    }
    let world = |name: &String| {
        Some(format!(
            "tool:skill@{}",
            name.strip_prefix("tool:skill/")?.split_once('@')?.1
        ))
    };
    found.worlds = found.imports.iter().chain(&found.exports).filter_map(world).collect();
    found.worlds.sort_unstable();
    found.worlds.dedup();
    found
}

/// First bytes of every WebAssembly file. Checked here because the parser's error for another file would quote all its
/// bytes.
const MAGIC: &[u8] = b"\0asm";

/// Reads and validates a component.
///
/// # Errors
///
/// Why it is refused, as the end of a sentence that starts with the component's name.
pub fn inspect_component(wasm: &[u8]) -> Result<Surface, String> {
    if wasm.len() as u64 > limits::COMPONENT_BYTES_MAX {
        return Err(format!("it is larger than {} bytes", limits::COMPONENT_BYTES_MAX));
    }
    if !wasm.starts_with(MAGIC) {
        return Err("it is no WebAssembly component".to_owned());
    }
    let broken = |error: wasmparser::BinaryReaderError| format!("it is no valid component: {}", error.message());
    let mut validator = Validator::new();
    let (mut imports, mut exports, mut depth, mut types) = (Vec::new(), Vec::new(), 0_u32, None);
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(broken)?;
        match &payload {
            Payload::Version { encoding, .. } if depth == 0 && *encoding == Encoding::Module => {
                return Err(
                    "it is a WebAssembly module, not a component: build it for the target `wasm32-wasip2`, or make a \
                            component of it with `wasm-tools component new`"
                        .to_owned(),
                );
            }
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::CodeSectionEntry(body) if body.range().len() > COMPONENT_FUNCTION_BYTES_MAX => {
                return Err(format!(
                    "one of its functions is larger than {COMPONENT_FUNCTION_BYTES_MAX} bytes"
                ));
            }
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section.clone() {
                    imports.push(import.map_err(broken)?.name.name);
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section.clone() {
                    exports.push(export.map_err(broken)?.name.name);
                }
            }
            _ => {}
        }
        // The compiler validates the bodies of functions; only types matter here.
        if let ValidPayload::End(known) = validator.payload(&payload).map_err(broken)? {
            types = Some(known);
        }
    }
    let types = types.ok_or("it is cut short")?;
    let mut surface = Surface::default();
    for name in imports {
        surface.import(name, has_functions(&types, name))?;
    }
    // Exports that the host does not know do no harm, because nothing calls them.
    let exports = exports
        .into_iter()
        .map(contract_interface)
        .collect::<Result<Vec<_>, _>>()?;
    if exports.iter().flatten().any(|(interface, _)| *interface == "handler") {
        Ok(surface)
    } else {
        Err(format!(
            "it exports no `tool:skill/handler@{CONTRACT}`, so it is no skill"
        ))
    }
}

/// False if only types are imported: a component imports an interface's types as soon as another interface uses them.
fn has_functions(types: &wasmparser::types::Types, import: &str) -> bool {
    match types.component_item_for_import(import).map(|item| item.ty) {
        Some(ComponentEntityType::Instance(instance)) => types[instance]
            .exports
            .values()
            .any(|export| !matches!(export.ty, ComponentEntityType::Type { .. })),
        _ => true,
    }
}

impl Surface {
    fn import(&mut self, name: &str, has_functions: bool) -> Result<(), String> {
        if let Some((interface, version)) = contract_interface(name)? {
            if is_newer(version) && self.newer.as_deref().and_then(parse_version) < parse_version(version) {
                self.newer = Some(version.to_owned());
            }
            match EFFECTS.iter().find(|(known, _)| *known == interface) {
                Some(&(known, effect)) if has_functions => self.imports.insert(effect, known),
                Some(_) => None,
                None if FREE.contains(&interface) => None,
                None if is_newer(version) => {
                    return Err(format!(
                        "it needs tool:skill@{version} for `tool:skill/{interface}`, and this host has \
                         tool:skill@{CONTRACT}: a newer `tool` has it"
                    ));
                }
                None => return Err(describe_unknown_import(name)),
            };
            return Ok(());
        }
        match name.split_once('@') {
            Some((interface, version)) if version.starts_with("0.2.") && WASI.contains(&interface) => Ok(()),
            Some((interface, version)) => match OutsideInterface::find(interface, version) {
                Some(outside) => {
                    // Types alone need no effect: a world may name an interface for a library that is never used.
                    self.outside.extend(has_functions.then_some(outside));
                    Ok(())
                }
                None => Err(describe_unknown_import(name)),
            },
            None => Err(describe_unknown_import(name)),
        }
    }
}

/// Splits an interface of the contract into name and version, if this host accepts the version.
fn contract_interface(name: &str) -> Result<Option<(&str, &str)>, String> {
    let Some(rest) = name.strip_prefix("tool:skill/") else {
        return Ok(None);
    };
    match rest.split_once('@') {
        Some((interface, version)) if accepts_contract(version) => Ok(Some((interface, version))),
        Some((_, other)) => Err(format!(
            "it was built for tool:skill@{other}, and this host has tool:skill@{CONTRACT}"
        )),
        None => Err(format!(
            "it names `{name}` without a version, and this host has tool:skill@{CONTRACT}"
        )),
    }
}

fn describe_unknown_import(name: &str) -> String {
    format!("it imports `{name}`, which this host does not provide")
}

#[cfg(test)]
mod unit {
    use super::*;

    fn unsigned(mut value: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        [&[id][..], &unsigned(content.len()), content].concat()
    }

    /// A component with one module, of one function whose body has this many bytes.
    fn component(body_bytes: usize) -> Vec<u8> {
        // No locals, then `nop` up to `end`.
        let mut body = vec![0x01; body_bytes];
        body[0] = 0;
        body[body_bytes - 1] = 0x0b;
        let code = [vec![1], unsigned(body_bytes), body].concat();
        let sections = [section(1, &[1, 0x60, 0, 0]), section(3, &[1, 0]), section(10, &code)].concat();
        let module = [&b"\0asm\x01\0\0\0"[..], &sections].concat();
        [&b"\0asm\x0d\0\x01\0"[..], &section(1, &module)].concat()
    }

    #[test]
    fn a_function_has_a_bounded_size() {
        let refused = |bytes| inspect_component(&component(bytes)).expect_err("it is no skill");
        assert!(refused(COMPONENT_FUNCTION_BYTES_MAX).starts_with("it exports no"));
        let large = refused(COMPONENT_FUNCTION_BYTES_MAX + 1);
        assert_eq!(large, "one of its functions is larger than 1048576 bytes");
    }
}
