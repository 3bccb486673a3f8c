//! `tool ci` and `tool batch` as pipelines run them: the action's steps as written, hostile text everywhere, reports in the
//! forms of CI systems, and many repositories with interruptions.

mod action;
mod attacks;
mod batch;
mod clones;
mod reports;
mod runner;
mod schedulers;
mod templates;

use tool_model_server::ModelServer;

/// Configuration with a scripted model as `local`.
fn scripted(server: &ModelServer) -> String {
    format!(
        "[providers.local]\nenabled = true\nmodel = \"scripted\"\nurl = \"{}\"\n",
        server.url()
    )
}
