//! Approvals by elicitation: the exact question, and the answers that count as a yes.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};

use crate::limits;
use tool_session::approvals::PendingQuestion;

/// Name of the only field of the form.
const FIELD: &str = "approve";

/// Name under which a question is sent with a result.
const INPUT: &str = "approval";

/// True if the client can ask its user.
pub(super) fn can_ask(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|can| can.elicitation);
    // A client that names no mode supports forms, the only mode of the first revision.
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// True if the question must be the result of the call, and the next call brings the answer: from this revision on, a
/// server sends no requests.
pub(super) fn goes_with_result(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Asks, and waits for the answer. Anything but a yes is a no.
pub(super) async fn elicit_approval(context: &RequestContext<RoleServer>, asking: &PendingQuestion) -> bool {
    let patience = std::time::Duration::from_secs(limits::APPROVAL_SECONDS_MAX.unsigned_abs());
    let answer = context
        .peer
        .create_elicitation_with_timeout(approval_form(asking), Some(patience));
    answer.await.is_ok_and(|answer| is_yes(&answer))
}

/// Creates the result that asks.
pub(super) fn input_required(asking: &PendingQuestion, state: &str) -> InputRequiredResult {
    let mut requests = InputRequests::new();
    requests.insert(
        INPUT.to_owned(),
        InputRequest::Elicitation(ElicitRequest::new(approval_form(asking))),
    );
    InputRequiredResult::new(Some(requests), Some(state.to_owned()))
}

/// True if the responses in the following request approve.
pub(super) fn is_approved(responses: Option<&InputResponses>) -> bool {
    let response = responses.and_then(|responses| responses.get(INPUT)).cloned();
    let answer = response.and_then(|response| serde_json::from_value::<ElicitResult>(response).ok());
    answer.is_some_and(|answer| is_yes(&answer))
}

fn is_yes(answer: &ElicitResult) -> bool {
    let field = answer.content.as_ref().and_then(|content| content.get(FIELD));
    answer.action == ElicitationAction::Accept && field.and_then(serde_json::Value::as_bool) == Some(true)
}

fn approval_form(asking: &PendingQuestion) -> ElicitRequestParams {
    let schema = ElicitationSchema::builder()
        .required_bool_with(FIELD, |field| {
            field
                .title("Allow it")
                .description(format!("Allow `{}` this once", asking.effect()))
        })
        .build();
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("{}\n\n{}", asking.title(), asking.detail()),
        requested_schema: schema.expect("its one field is there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_plain_yes_is_one() {
        let is = |answer: serde_json::Value| {
            let responses = InputResponses::from([(INPUT.to_owned(), answer)]);
            is_approved(Some(&responses))
        };
        assert!(is(json!({"action": "accept", "content": {"approve": true}})));
        for no in [
            json!({"action": "accept", "content": {"approve": false}}),
            json!({"action": "accept", "content": {"approve": "true"}}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept"}),
            json!({"action": "decline", "content": {"approve": true}}),
            json!({"action": "cancel"}),
            json!("yes"),
        ] {
            assert!(!is(no.clone()), "{no}");
        }
        assert!(!is_approved(None) && !is_approved(Some(&InputResponses::new())));
    }
}
