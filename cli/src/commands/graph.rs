//! `tool graph`: the modules of a directory and the imports between them.

use std::process::ExitCode;

use host::api::{GraphRequest, ModuleGraph};

use super::{Context, path_text, print_json};
use crate::args::{GraphArguments, GraphFormat};
use crate::error::Error;

/// Asks the backend and prints its answer in one of the three forms.
pub(super) async fn run(arguments: GraphArguments, context: &Context) -> Result<ExitCode, Error> {
    let (root, here) = context.places()?;
    let request = GraphRequest {
        repo_path: path_text(&root)?,
        path: arguments.path,
        working_directory: Some(path_text(&here)?),
        packages: arguments.packages,
    };
    let mut client = context.backend.connect_or_start().await?;
    let graph: ModuleGraph = client.post("/api/graph", &request).await?;
    let format = if arguments.json {
        GraphFormat::Json
    } else {
        arguments.format
    };
    match format {
        GraphFormat::Json => return print_json(&graph, context.output),
        GraphFormat::Mermaid => context.output.answer(&graph.mermaid())?,
        GraphFormat::Dot => context.output.answer(&graph.dot())?,
    }
    for notice in &graph.notices {
        context.output.notice(notice, None);
    }
    if graph.edges_left_out > 0 {
        let notice = format!("{} weaker edges are left out", graph.edges_left_out);
        context
            .output
            .notice(&notice, Some("draw a directory of it: `tool graph PATH`"));
    }
    Ok(ExitCode::SUCCESS)
}
