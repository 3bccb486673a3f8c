//! Prints what the context engine would choose: `select OPERATION [TARGET]` in a repository.
//!
//! For a task as a whole, as the localisation set asks: `QUERY=… select refactor`. With `--packet`, the packet too.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use host::outline::SandboxedParser;
use tokio_util::sync::CancellationToken;
use tool_context::operation::{TargetLookup, resolve_target};
use tool_context::{BuildRequest, Indexes, SelectionFilter};
use tool_core::api::Operation;
use tool_core::limits::PACKET_TOKENS;
use tool_repository::{Options, Repository};
use tool_skill::embedded::{Packed, base_of};
use tool_skill::{EmbeddedOutliner, Outliners};

/// The components that the product embeds.
fn parser(folder: &Path) -> std::io::Result<Arc<SandboxedParser>> {
    let names = [
        "outline_c",
        "outline_csharp",
        "outline_dynamic",
        "outline_kotlin",
        "outline_native",
        "outline_python",
        "outline_script",
        "outline_shell",
    ];
    let embedded = names.map(|name| {
        let read = |name| -> std::io::Result<&'static [u8]> {
            Ok(std::fs::read(folder.join(format!("{name}.compiled")))?.leak())
        };
        let base = base_of(name).map(read).transpose()?.unwrap_or_default();
        let bytes = read(name)?;
        let compiled = Packed { bytes, base };
        Ok(EmbeddedOutliner { name, compiled })
    });
    let embedded: std::io::Result<Vec<EmbeddedOutliner>> = embedded.into_iter().collect();
    Ok(Arc::new(SandboxedParser(Outliners::new(embedded?.leak()))))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let packet = arguments
        .iter()
        .position(|argument| argument == "--packet")
        .map(|at| arguments.remove(at));
    let why = arguments
        .iter()
        .position(|argument| argument == "--why")
        .map(|at| arguments.remove(at));
    let operation: Operation = arguments.first().ok_or("no operation")?.parse()?;
    #[expect(clippy::disallowed_methods, reason = "an example has no configuration")]
    let query = std::env::var("QUERY").ok();
    #[expect(clippy::disallowed_methods, reason = "an example has no configuration")]
    let home = std::env::var("TOOL_HOME").unwrap_or_default();
    let target = arguments.get(1).cloned().or(query);
    let cancel = CancellationToken::new();
    let start = std::time::Instant::now();
    let repository = Repository::open(
        Path::new("."),
        &Options {
            home_confirmed: true,
            ..Options::default()
        },
    )?;
    // `TREES` names the folder of compiled components, `target/skills`; without it files are read by text alone.
    #[expect(clippy::disallowed_methods, reason = "an example has no configuration")]
    let indexes = match std::env::var_os("TREES") {
        Some(folder) => Indexes::waiting_for_trees(Path::new(&home), parser(Path::new(&folder))?),
        None => Indexes::open_waiting(Path::new(&home)),
    };
    let find_symbol = |name: &str| {
        tool_context::find_symbol(&repository, &indexes, name, &cancel).map_err(tool_core::api::Problem::from)
    };
    let lookup = TargetLookup {
        repository: &repository,
        working_directory: repository.root(),
        find_symbol: &find_symbol,
        cancel: &cancel,
    };
    let target = resolve_target(operation, target.as_deref(), None, &lookup)?;
    let packet_built = tool_context::build_packet(&BuildRequest {
        repository: &repository,
        indexes: &indexes,
        operation,
        target: &target,
        focus: None,
        filter: &SelectionFilter::default(),
        vault: None,
        redactor: &tool_core::redaction::Redactor::default(),
        budget_tokens: PACKET_TOKENS,
        cancel: &cancel,
    })?;
    let mut out = std::io::stdout().lock();
    for file in &packet_built.selected {
        match &why {
            Some(_) => writeln!(
                out,
                "{:<50} {:.2} {} tokens {:?} {}",
                file.path,
                file.score,
                file.tokens,
                file.regions,
                file.reasons.join("; ")
            )?,
            None => writeln!(out, "{}", file.path)?,
        }
    }
    if why.is_some() {
        for file in &packet_built.near_misses {
            writeln!(
                out,
                "   near: {} {:.2} {}",
                file.path,
                file.score,
                file.reasons.join("; ")
            )?;
        }
        writeln!(
            out,
            "{:?} {} bytes of context, {:?}",
            packet_built.notices,
            packet_built.context.len(),
            start.elapsed()
        )?;
    }
    if packet.is_some() {
        writeln!(out, "{}", packet_built.context)?;
    }
    Ok(())
}
