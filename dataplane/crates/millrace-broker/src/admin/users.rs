//! `/v1/users`: users and their SCRAM credentials (KIP-554). Passwords come salted and hashed, as from any
//! Kafka client.

use axum::{
    Json,
    extract::{Path, Request, State},
    http::StatusCode,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use millrace_security::credentials::ScramHash;
use millrace_wire::{
    StrBytes,
    messages::{
        AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest,
        alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
        describe_user_scram_credentials_request::UserName,
        describe_user_scram_credentials_response::DescribeUserScramCredentialsResult,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    AdminState,
    kafka::{Refused, ask, body, check},
};

/// A SCRAM mechanism by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Mechanism {
    #[serde(rename = "SCRAM-SHA-256")]
    Sha256,
    #[serde(rename = "SCRAM-SHA-512")]
    Sha512,
}

impl Mechanism {
    const fn code(self) -> i8 {
        match self {
            Self::Sha256 => ScramHash::Sha256.code(),
            Self::Sha512 => ScramHash::Sha512.code(),
        }
    }

    fn of(code: i8) -> Option<Self> {
        ScramHash::from_code(code).map(|hash| match hash {
            ScramHash::Sha256 => Self::Sha256,
            ScramHash::Sha512 => Self::Sha512,
        })
    }
}

#[derive(Serialize)]
pub(super) struct Users {
    users: Vec<User>,
}

#[derive(Serialize)]
pub(super) struct User {
    name: String,
    credentials: Vec<Credential>,
}

#[derive(Serialize)]
struct Credential {
    mechanism: Mechanism,
    iterations: i32,
}

/// `GET /v1/users`: every user, in the order of their names.
pub(super) async fn list(State(state): State<AdminState>) -> Result<Json<Users>, Refused> {
    let users = describe(&state, None).await?;
    Ok(Json(Users { users }))
}

/// `GET /v1/users/{user}`
pub(super) async fn read(
    State(state): State<AdminState>,
    Path(name): Path<String>,
) -> Result<Json<User>, Refused> {
    let found = describe(&state, Some(name)).await?.pop();
    let missing = || Refused::invalid("the broker did not describe the user");
    found.map(Json).ok_or_else(missing)
}

async fn describe(state: &AdminState, name: Option<String>) -> Result<Vec<User>, Refused> {
    let named = |name| UserName::default().with_name(StrBytes::from_string(name));
    let asked = name.map(|name| vec![named(name)]);
    let request = DescribeUserScramCredentialsRequest::default().with_users(asked);
    let response = ask(state, &request).await?;
    check(response.error_code, response.error_message.as_ref())?;
    response.results.into_iter().map(user).collect()
}

fn user(result: DescribeUserScramCredentialsResult) -> Result<User, Refused> {
    check(result.error_code, result.error_message.as_ref())?;
    let credentials = result.credential_infos.into_iter().filter_map(|info| {
        Some(Credential {
            mechanism: Mechanism::of(info.mechanism)?,
            iterations: info.iterations,
        })
    });
    Ok(User {
        name: result.user.to_string(),
        credentials: credentials.collect(),
    })
}

/// What is to become of a user's credentials: all of it or nothing. Others stay as they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    #[serde(default)]
    put: Vec<NewCredential>,
    #[serde(default)]
    remove: Vec<Mechanism>,
}

/// As good as the password: not to be logged.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewCredential {
    mechanism: Mechanism,
    iterations: i32,
    /// In base64.
    salt: String,
    /// In base64.
    salted_password: String,
}

/// `PATCH /v1/users/{user}`: a user without any credential is no user.
pub(super) async fn change(
    State(state): State<AdminState>,
    Path(name): Path<String>,
    request: Request,
) -> Result<StatusCode, Refused> {
    let change: Change = body(request).await?;
    if change.put.is_empty() && change.remove.is_empty() {
        return Err(Refused::invalid(
            "name at least one credential in put or remove",
        ));
    }
    let name = StrBytes::from_string(name);
    let remove = |mechanism: Mechanism| {
        let deletion = ScramCredentialDeletion::default().with_name(name.clone());
        deletion.with_mechanism(mechanism.code())
    };
    let put = change.put.into_iter().map(|new| upsertion(&name, new));
    let request = AlterUserScramCredentialsRequest::default()
        .with_upsertions(put.collect::<Result<_, _>>()?)
        .with_deletions(change.remove.into_iter().map(remove).collect());
    for result in ask(&state, &request).await?.results {
        check(result.error_code, result.error_message.as_ref())?;
    }
    Ok(StatusCode::NO_CONTENT)
}

fn upsertion(name: &StrBytes, new: NewCredential) -> Result<ScramCredentialUpsertion, Refused> {
    let decoded = |field: &str, text: &str| {
        let bytes = STANDARD.decode(text);
        // The text itself may be the password's equal.
        bytes.map_err(|_| Refused::invalid(format!("{field} is not base64")))
    };
    Ok(ScramCredentialUpsertion::default()
        .with_name(name.clone())
        .with_mechanism(new.mechanism.code())
        .with_iterations(new.iterations)
        .with_salt(decoded("salt", &new.salt)?.into())
        .with_salted_password(decoded("salted_password", &new.salted_password)?.into()))
}
