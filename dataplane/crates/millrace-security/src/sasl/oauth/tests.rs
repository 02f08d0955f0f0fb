//! Tokens that are accepted and refused.

use std::{sync::Arc, time::Duration};

use millrace_testkit::TokenIssuer;
use millrace_time::{Clock as _, ManualClock};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Made by Node's `crypto`: a key, and tokens of it by RS256 and PS256.
const RSA_KEY: &str = r#"{"kty":"RSA","n":"lYmdMLEbpcQz7rgdFO0Tmw3ZvLT3E721GiB11NungUtYrod_C3Z60Z4MZdnskSUTZvdjAUfIFuzbx_1f-jDxv9PuSIFLZQhRj4XySEEMQWfhmuxE-90ukF_T03nD-sOdkriKvMf7cpx5ewH6Z8WIc4aEME03yquDTGge1y46t7MBhyiz6owKyZnXC_2BnIfS9iodp-ICn3KYg_uUi1DL45EN9BZvH_Pgc6EnokaV7wAcmM6nIukc-nnC3EiWgAeuTh30k-_lww-bPjWUK7wubbb_w0vHK7cfn6HsoXjUK75Ogs2mQ722kRqPBvIrbaH_EI6nRH_DDzLLExlSNXiR3Q","e":"AQAB"}"#;
const RS256: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.SWl6u1AsLVSTHzh0rwnHZt-ceI7_gbhPVnQiTaHah5wRCrX4l71iaZP5NsF5QvYPI74GVMbpePqnCmZk_o_1oVBz482tznAzTOk2Jyp0cD6i9P_YctZBxzoHvxFUDEhAKPa4GTe9WNK-NYwNhutig4zeanOXgs15bAIZgBYuZXAbPyYMa7A0daX4vG3ieRHOrPwTLRVh7C1wyOUgO-8prW3w8zoC5uaxK7_ERwcylGYGt5CTqT7ds7o5-gzd9oyTgTqYcxmHCnufofYo_Uo56Zfetmk5YR6XAhVPnimEkq-yP8gZ1fYq8Zl1cRPI8wi1jk1NTHUlGMIwCRBvJQBqTg";
const PS256: &str = "eyJhbGciOiJQUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.aAlghKk8Hpl8mE-25Xwc9-4umqPVdXPf9sCDbAphsZkqzTAEnNTCF_Fa-qh1Lrns4T3Uqadyo8P-wikiOl-CVUcMDnhAJRb1p9EIt3rk7o3FyV5NI7atdh64DgNRr6ntSi9_txwA-awm-FP_BUXchdiG-BQzRMVDYGFHIy_cAvuKjH5qviTCNCfE-26o9O3QD_TXODgVpAtFyMuBMrJJVV2VWe-xx0KD_kT7UrTwb6Y-aWm6Tx1rq-vf_S6v1qK5fA6F9bH_88BbDEtYFKJok8_n80Bn3Q2CtlwXKhs7sI2mjJa6VrI9ozJnmqF5HSJR3s6AtyVmsK4SNh62Oq-nNg";

struct World {
    clock: Arc<ManualClock>,
    tokens: Tokens,
    issuer: TokenIssuer,
}

fn rules() -> TokenRules {
    TokenRules {
        audiences: vec!["kafka".to_owned(), "other".to_owned()],
        issuer: Some("https://issuer".to_owned()),
        scope_claim: "scope".to_owned(),
        sub_claim: "sub".to_owned(),
        clock_skew: Duration::from_secs(30),
    }
}

fn world(rules: TokenRules) -> World {
    let clock = ManualClock::shared();
    clock.advance(Duration::from_secs(1_000));
    let tokens = Tokens::new(rules, clock.clone());
    let issuer = TokenIssuer::new("key-1");
    let keys = TokenIssuer::key_set(&[&issuer]);
    tokens.set_keys(keys.as_bytes()).expect("a key set");
    World {
        clock,
        tokens,
        issuer,
    }
}

impl World {
    /// Seconds since 1970.
    fn now(&self) -> i64 {
        self.clock.wall_ms() / 1_000
    }

    /// Good claims, with others in place of theirs; null removes one.
    fn claims(&self, others: Value) -> Value {
        let mut claims = json!({
            "sub": "alice", "aud": "kafka", "iss": "https://issuer", "exp": self.now() + 300,
            "scope": "read write",
        });
        for (name, value) in others.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        let all = claims.as_object_mut().expect("an object");
        all.retain(|_, value| !value.is_null());
        claims
    }

    fn user(&self, others: Value) -> Result<String, TokenError> {
        let token = self.issuer.sign(&self.claims(others));
        self.tokens.accept(&token).map(|accepted| accepted.user)
    }
}

#[test]
fn a_good_token_names_its_user_and_how_long_it_lasts() {
    let world = world(rules());
    let token = world.issuer.sign(&world.claims(json!({})));
    let accepted = world.tokens.accept(&token).expect("good");
    assert_eq!(accepted.user, "alice");
    let lifetime = accepted.lifetime.as_secs();
    assert!((299..=300).contains(&lifetime), "{lifetime}");
    for others in [
        json!({"aud": ["x", "other"]}),
        json!({"scope": ["read"]}),
        json!({"scope": null}),
        json!({"nbf": world.now() + 20}),
        json!({"exp": world.now() - 20}),
        json!({"exp": 4_102_444_800.5}),
    ] {
        assert_eq!(
            world.user(others.clone()).as_deref(),
            Ok("alice"),
            "{others}"
        );
    }
    let renamed = TokenRules {
        sub_claim: "client_id".to_owned(),
        issuer: None,
        audiences: Vec::new(),
        ..rules()
    };
    let world = super::tests::world(renamed);
    let others = json!({"client_id": "bob", "sub": null, "aud": null, "iss": null});
    assert_eq!(world.user(others).as_deref(), Ok("bob"));
}

#[test]
fn claims_that_are_wrong_are_refused() {
    let world = world(rules());
    let now = world.now();
    for (others, error) in [
        (json!({"exp": now - 31}), TokenError::Expired),
        (json!({"exp": null}), TokenError::Expired),
        (json!({"exp": "4102444800"}), TokenError::Expired),
        (json!({"nbf": now + 60}), TokenError::NotYetValid),
        (json!({"nbf": "soon"}), TokenError::NotYetValid),
        (json!({"aud": "kafka2"}), TokenError::Audience),
        (json!({"aud": ["x"]}), TokenError::Audience),
        (json!({"aud": 7}), TokenError::Audience),
        (json!({"aud": null}), TokenError::Audience),
        (json!({"iss": "https://issuer/"}), TokenError::Issuer),
        (json!({"iss": ["https://issuer"]}), TokenError::Issuer),
        (json!({"iss": null}), TokenError::Issuer),
        (json!({"sub": null}), TokenError::Claim),
        (json!({"sub": ""}), TokenError::Claim),
        (json!({"sub": "a\nb"}), TokenError::Claim),
        (json!({"sub": 7}), TokenError::Claim),
        (json!({"sub": "x".repeat(10_000)}), TokenError::Claim),
        (json!({"scope": 7}), TokenError::Claim),
        (json!({"scope": [7]}), TokenError::Claim),
    ] {
        assert_eq!(world.user(others.clone()), Err(error), "{others}");
    }
    // What is good now is not for ever.
    let token = world.issuer.sign(&world.claims(json!({})));
    assert!(world.tokens.accept(&token).is_ok());
    world.clock.advance(Duration::from_secs(331));
    assert_eq!(world.tokens.accept(&token), Err(TokenError::Expired));
}

#[test]
fn signatures_that_are_wrong_are_refused() {
    let world = world(rules());
    let claims = world.claims(json!({}));
    let refused = |token: &str| world.tokens.accept(token).expect_err("refused");
    let signed = |header: Value| refused(&world.issuer.sign_as(&header, &claims));
    assert_eq!(
        signed(json!({"alg": "none", "kid": "key-1"})),
        TokenError::Malformed
    );
    assert_eq!(
        signed(json!({"alg": "HS256", "kid": "key-1"})),
        TokenError::Algorithm
    );
    assert_eq!(
        signed(json!({"alg": "RS256", "kid": "key-1"})),
        TokenError::Algorithm
    );
    assert_eq!(
        signed(json!({"alg": "ES384", "kid": "key-1"})),
        TokenError::Algorithm
    );
    assert_eq!(signed(json!({"alg": "ES256"})), TokenError::NoKeyId);
    assert!(!world.tokens.take_missed_key());
    assert_eq!(
        signed(json!({"alg": "ES256", "kid": "key-2"})),
        TokenError::UnknownKey
    );
    assert!(world.tokens.take_missed_key() && !world.tokens.take_missed_key());
    let foreign = TokenIssuer::new("key-1").sign(&claims);
    assert_eq!(refused(&foreign), TokenError::Signature);
    let good = world.issuer.sign(&claims);
    let other = world.issuer.sign(&world.claims(json!({"sub": "root"})));
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (good, other) = (parts(&good), parts(&other));
    let mixed = format!("{}.{}.{}", good[0], other[1], good[2]);
    assert_eq!(refused(&mixed), TokenError::Signature);
    assert_eq!(
        refused(&format!("{}.{}.", good[0], good[1])),
        TokenError::Signature
    );
    for malformed in [
        "",
        "a",
        "a.b.c",
        &good[0],
        &format!("{}.{}", good[0], good[1]),
    ] {
        assert_eq!(refused(malformed), TokenError::Malformed, "{malformed}");
    }
}

#[test]
fn keys_rotate_and_a_bad_set_changes_nothing() {
    let world = world(rules());
    let next = TokenIssuer::new("key-2");
    let (old, new) = (
        world.issuer.sign(&world.claims(json!({}))),
        next.sign(&world.claims(json!({}))),
    );
    assert_eq!(world.tokens.accept(&new), Err(TokenError::UnknownKey));
    let keys = |issuers: &[&TokenIssuer]| TokenIssuer::key_set(issuers);
    let both = keys(&[&world.issuer, &next]);
    world.tokens.set_keys(both.as_bytes()).expect("a key set");
    assert!(world.tokens.accept(&old).is_ok() && world.tokens.accept(&new).is_ok());
    let secret = json!({"keys": [{"kty": "oct", "kid": "key-2", "k": "c2VjcmV0"}]}).to_string();
    let for_encryption = keys(&[&next]).replace("\"sig\"", "\"enc\"");
    let without_id = keys(&[&next]).replace("\"kid\"", "\"id\"");
    let many = json!({"keys": vec![next.jwk(); KEYS_MAX + 1]}).to_string();
    for bad in [
        "",
        "[]",
        "{}",
        "{\"keys\":[]}",
        &secret,
        &for_encryption,
        &without_id,
        &many,
    ] {
        assert!(world.tokens.set_keys(bad.as_bytes()).is_err(), "{bad}");
    }
    assert!(world.tokens.accept(&old).is_ok(), "the former keys stay");
    // One key that cannot be read does not cost the others.
    let mixed = json!({"keys": [{"kty": "new"}, 7, next.jwk()]}).to_string();
    world.tokens.set_keys(mixed.as_bytes()).expect("a key set");
    assert!(world.tokens.accept(&new).is_ok());
    assert_eq!(world.tokens.accept(&old), Err(TokenError::UnknownKey));
}

/// The last of them was used: whoever could add a key to the set replaced another so.
#[test]
fn keys_that_share_an_id_and_an_algorithm_are_not_used() {
    let world = world(rules());
    let (twin, other) = (TokenIssuer::new("key-1"), TokenIssuer::new("key-2"));
    let claims = world.claims(json!({}));
    let tokens = &world.tokens;
    let set = |keys: &[Value]| tokens.set_keys(json!({ "keys": keys }).to_string().as_bytes());
    let (own, twin_key) = (world.issuer.jwk(), twin.jwk());

    let only = set(&[own.clone(), twin_key.clone()]);
    assert_eq!(only, Err(InvalidKeySet::Ambiguous("key-1".to_owned())));
    assert!(
        tokens.accept(&world.issuer.sign(&claims)).is_ok(),
        "the former keys stay"
    );
    let left_out = set(&[own.clone(), twin_key.clone(), other.jwk()]);
    assert_eq!(left_out, Ok(vec!["key-1".to_owned()]));
    for issuer in [&world.issuer, &twin] {
        let refused = tokens.accept(&issuer.sign(&claims));
        assert_eq!(refused, Err(TokenError::UnknownKey));
    }
    assert!(tokens.accept(&other.sign(&claims)).is_ok());

    // What is not for signatures is no alternative, and the same key twice is one.
    let mut for_encryption = twin_key;
    for_encryption["use"] = json!("enc");
    assert_eq!(set(&[own.clone(), for_encryption, own.clone()]), Ok(vec![]));
    assert!(tokens.accept(&world.issuer.sign(&claims)).is_ok());
}

/// An issuer may list a key once plainly and once with its certificate, or once per algorithm.
#[test]
fn one_key_that_is_listed_twice_is_not_ambiguous() {
    let open = TokenRules {
        audiences: Vec::new(),
        issuer: None,
        ..rules()
    };
    let world = world(open);
    let set = |keys: [&Value; 2]| {
        let keys = json!({ "keys": keys }).to_string();
        world.tokens.set_keys(keys.as_bytes())
    };
    let with = |key: &Value, member: &str, value: &str| {
        let mut key = key.clone();
        key[member] = json!(value);
        key
    };
    let own = world.issuer.jwk();
    let token = world.issuer.sign(&world.claims(json!({})));
    for other in [
        with(&own, "x5t", "dGh1bWJwcmludA"),
        with(&own, "use", "sig"),
        own.clone(),
    ] {
        assert_eq!(set([&own, &other]), Ok(vec![]), "{other}");
        assert!(world.tokens.accept(&token).is_ok());
    }

    let rsa: Value = serde_json::from_str(RSA_KEY).expect("JSON");
    let rsa = with(&rsa, "kid", "rsa");
    let by = |algorithm| with(&rsa, "alg", algorithm);
    assert_eq!(set([&by("RS256"), &by("PS256")]), Ok(vec![]));
    for token in [RS256, PS256] {
        assert!(world.tokens.accept(token).is_ok());
    }
}

/// RFC 7517, section 4.5: equivalent alternatives of different types.
#[test]
fn keys_of_different_types_may_share_an_id() {
    let open = TokenRules {
        audiences: Vec::new(),
        issuer: None,
        ..rules()
    };
    let world = world(open);
    let mut rsa: Value = serde_json::from_str(RSA_KEY).expect("JSON");
    rsa["kid"] = json!("rsa");
    let curve = TokenIssuer::new("rsa");
    let keys = json!({"keys": [rsa, curve.jwk()]}).to_string();
    assert_eq!(world.tokens.set_keys(keys.as_bytes()), Ok(vec![]));
    for token in [RS256.to_owned(), curve.sign(&world.claims(json!({})))] {
        assert_eq!(world.tokens.accept(&token).expect("good").user, "alice");
    }
}

#[test]
fn rsa_signs_too() {
    let open = TokenRules {
        audiences: Vec::new(),
        issuer: None,
        ..rules()
    };
    let world = world(open);
    let keys = format!("{{\"keys\":[{RSA_KEY}]}}").replace("\"RSA\"", "\"RSA\",\"kid\":\"rsa\"");
    world.tokens.set_keys(keys.as_bytes()).expect("a key set");
    for token in [RS256, PS256] {
        assert_eq!(world.tokens.accept(token).expect("good").user, "alice");
        let changed = token.replace("IsImV4c", "IsImV4d");
        assert_ne!(changed, token);
        assert!(world.tokens.accept(&changed).is_err());
    }
    let only = keys.replace("\"RSA\"", "\"RSA\",\"alg\":\"RS256\"");
    world.tokens.set_keys(only.as_bytes()).expect("a key set");
    assert!(world.tokens.accept(RS256).is_ok());
    assert_eq!(world.tokens.accept(PS256), Err(TokenError::Algorithm));
}

proptest! {
    #[test]
    fn no_other_token_is_accepted(
        text in "[A-Za-z0-9_.-]{0,80}",
        keys in proptest::collection::vec(any::<u8>(), 0..64),
        at in any::<usize>(),
        to in proptest::char::range('A', 'z'),
    ) {
        thread_local! {
            static WORLD: World = world(rules());
        }
        WORLD.with(|world| {
            let _ = world.tokens.set_keys(&keys);
            prop_assert!(world.tokens.accept(&text).is_err());
            let token = world.issuer.sign(&world.claims(json!({})));
            let mut changed: Vec<char> = token.chars().collect();
            // The last digit of a signature has bits that mean nothing.
            let at = at % (changed.len() - 1);
            changed[at] = to;
            let changed: String = changed.into_iter().collect();
            prop_assert!(changed == token || world.tokens.accept(&changed).is_err());
            Ok(())
        })?;
    }
}
