//! `tool graph`: the modules of a directory and the imports between them, or the callers and callees of a symbol.

use std::process::ExitCode;

use serde::Serialize;
use tool_core::api::{CallGraph, CallGraphRequest, GraphRequest, ModuleGraph};

use super::{CommandContext, path_text, print_json};
use crate::args::{GraphArguments, GraphFormat};
use crate::error::Error;

/// Requests the graph and prints it in one of the three forms.
pub(super) async fn show_graph(arguments: GraphArguments, context: &CommandContext) -> Result<ExitCode, Error> {
    let (root, here) = context.places()?;
    let (repo_path, working_directory) = (path_text(&root)?, Some(path_text(&here)?));
    let format = if arguments.json {
        GraphFormat::Json
    } else {
        arguments.format
    };
    let mut client = context.backend.connect_or_start().await?;
    match arguments.symbol {
        Some(symbol) => {
            let request = CallGraphRequest {
                repo_path,
                symbol,
                path: arguments.path,
                working_directory,
            };
            let graph: CallGraph = client.post("/api/graph/calls", &request).await?;
            let hint = "name a file or a directory: `tool graph --symbol NAME PATH`";
            let left_out = (graph.edges_left_out, hint);
            let forms = (graph.mermaid(), graph.dot());
            print_graph(context, format, &graph, forms, &graph.notices, left_out)
        }
        None => {
            let request = GraphRequest {
                repo_path,
                path: arguments.path,
                working_directory,
                packages: arguments.packages,
            };
            let graph: ModuleGraph = client.post("/api/graph", &request).await?;
            let left_out = (graph.edges_left_out, "draw a directory of it: `tool graph PATH`");
            let forms = (graph.mermaid(), graph.dot());
            print_graph(context, format, &graph, forms, &graph.notices, left_out)
        }
    }
}

/// Prints a graph, its notices, and the number of omitted edges with a hint.
fn print_graph(
    context: &CommandContext,
    format: GraphFormat,
    graph: &impl Serialize,
    (mermaid, dot): (String, String),
    notices: &[String],
    (left_out, hint): (u64, &str),
) -> Result<ExitCode, Error> {
    match format {
        GraphFormat::Json => return print_json(graph, context.output),
        GraphFormat::Mermaid => context.output.answer(&mermaid)?,
        GraphFormat::Dot => context.output.answer(&dot)?,
    }
    for notice in notices {
        context.output.notice(notice, None);
    }
    if left_out > 0 {
        let notice = format!("{left_out} edges are left out");
        context.output.notice(&notice, Some(hint));
    }
    Ok(ExitCode::SUCCESS)
}
