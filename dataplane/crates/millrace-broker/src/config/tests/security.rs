//! Who may connect, and what they may do.

use millrace_net::ClientAuth;
use millrace_security::Principal;

use super::*;

const JAAS: &str = "listener.name.sasl_ssl.plain.sasl.jaas.config=\
    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\";";

#[test]
fn listeners_are_protected_by_protocol() {
    let text = format!(
        "listeners=PLAINTEXT://:1,OUT://:2,SASL_SSL://:3\n\
         advertised.listeners=PLAINTEXT://h:1,OUT://h:2,SASL_SSL://h:3\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUT:SSL\n\
         ssl.keystore.type=PEM\nssl.keystore.location=/a/server.pem\n\
         listener.name.out.ssl.keystore.location=/a/out.pem\n\
         listener.name.out.ssl.enabled.protocols=TLSv1.3\n\
         listener.name.sasl_ssl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
         listener.name.sasl_ssl.connections.max.reauth.ms=60000\n{JAAS}"
    );
    let config = legal(&text);
    assert_eq!(config.unknown, Vec::<String>::new());
    assert!(config.protections["PLAINTEXT"].is_plaintext());
    let out = &config.protections["OUT"];
    assert!(out.sasl.is_none());
    let tls = out.tls.as_ref().expect("TLS");
    assert_eq!(tls.keystore, Keystore::File("/a/out.pem".into()));
    assert_eq!(tls.settings.versions.len(), 1);
    let both = &config.protections["SASL_SSL"];
    let tls = both.tls.as_ref().expect("TLS");
    assert_eq!(tls.keystore, Keystore::File("/a/server.pem".into()));
    assert_eq!(tls.settings.versions.len(), 2);
    let sasl = both.sasl.as_ref().expect("SASL");
    assert_eq!(sasl.session_max, Some(Duration::from_secs(60)));
    assert_eq!(sasl.mechanisms.len(), 2);
    let shown = format!("{config:?}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn tokens_are_verified_by_kafkas_properties() {
    let text = "listeners=SASL_SSL://h:1\nssl.keystore.location=/a/server.pem\n\
        sasl.enabled.mechanisms=OAUTHBEARER\n\
        sasl.oauthbearer.jwks.endpoint.url=https://issuer/keys\n\
        sasl.oauthbearer.expected.audience=kafka, other\n\
        listener.name.sasl_ssl.sasl.oauthbearer.expected.issuer=https://issuer\n\
        sasl.oauthbearer.sub.claim.name=client_id\nsasl.oauthbearer.clock.skew.seconds=5\n\
        sasl.oauthbearer.jwks.endpoint.refresh.ms=60000\n\
        listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=\
        org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
        ssl.truststore.location=\"/a/issuer.pem\";";
    let config = legal(text);
    assert_eq!(config.unknown, Vec::<String>::new());
    let sasl = config.protections["SASL_SSL"].sasl.as_ref();
    let oauth = sasl.and_then(|sasl| sasl.oauth.as_ref()).expect("tokens");
    assert_eq!(oauth.keys, KeySource::Https("https://issuer/keys".into()));
    assert_eq!(oauth.refresh, Duration::from_secs(60));
    assert_eq!(oauth.truststore, Some("/a/issuer.pem".into()));
    assert_eq!(oauth.rules.audiences, ["kafka", "other"]);
    assert_eq!(oauth.rules.issuer.as_deref(), Some("https://issuer"));
    assert_eq!(
        (&*oauth.rules.sub_claim, &*oauth.rules.scope_claim),
        ("client_id", "scope")
    );
    assert_eq!(oauth.rules.clock_skew, Duration::from_secs(5));
}

#[test]
fn client_certificates_are_asked_for_by_listener() {
    let text = format!(
        "listeners=SSL://:1,OWN://:2,SASL_SSL://:3\n\
         advertised.listeners=SSL://h:1,OWN://h:2,SASL_SSL://h:3\n\
         listener.security.protocol.map=SSL:SSL,OWN:SSL,SASL_SSL:SASL_SSL\n\
         ssl.keystore.location=/a/server.pem\nssl.client.auth=required\n\
         ssl.truststore.location=/a/clients.pem\n\
         listener.name.own.ssl.client.auth=requested\n\
         listener.name.ssl.ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/\n\
         sasl.enabled.mechanisms=PLAIN\n{JAAS}"
    );
    let config = legal(&text);
    let tls = |name: &str| config.protections[name].tls.clone().expect("TLS");
    let truststore = Some(Truststore::File("/a/clients.pem".into()));
    assert_eq!(tls("SSL").settings.client_auth, ClientAuth::Required);
    assert_eq!(tls("SSL").truststore, truststore);
    assert_eq!(tls("SSL").mapping.map("CN=a").as_deref(), Some("a"));
    assert_eq!(tls("OWN").settings.client_auth, ClientAuth::Requested);
    assert_eq!(tls("OWN").mapping.map("CN=a").as_deref(), Some("CN=a"));
    // KIP-684: what holds for all listeners does not hold for those with SASL.
    assert_eq!(tls("SASL_SSL").settings.client_auth, ClientAuth::None);
    assert_eq!(tls("SASL_SSL").truststore, None);
}

#[test]
fn what_would_be_less_secure_than_it_looks_is_refused() {
    let refused = |lines: &str, part: &str| {
        let text = format!("listeners=SASL_SSL://h:1\n{lines}");
        let errors = errors(&text);
        assert!(
            errors.iter().any(|error| error.contains(part)),
            "{errors:#?}"
        );
        assert!(
            !errors.iter().any(|error| error.contains("hunter2")),
            "{errors:#?}"
        );
    };
    refused("", "ssl.keystore.location");
    refused("admin.sasl.enabled=true", "set admin.token.file, and SCRAM");
    refused("", "sasl.enabled.mechanisms");
    refused("ssl.keystore.type=JKS", "JKS is not supported");
    let own = "listener.name.sasl_ssl.ssl.client.auth";
    refused(&format!("{own}=required"), "ssl.truststore.location");
    refused(&format!("{own}=wanted"), "none, requested or required");
    refused(
        &format!("{own}=required\nssl.truststore.type=JKS"),
        "JKS is not supported",
    );
    refused("ssl.principal.mapping.rules=RULE:a/b", "RULE:a/b");
    refused(
        &format!("{own}=required\nssl.truststore.password=hunter2"),
        "ssl.truststore.password",
    );
    refused("ssl.key.password=hunter2", "ssl.key.password");
    refused("ssl.enabled.protocols=TLSv1.1", "TLSv1.1");
    refused("sasl.enabled.mechanisms=GSSAPI", "GSSAPI");
    refused("sasl.enabled.mechanisms=PLAIN", "has no users");
    let bearer = "sasl.enabled.mechanisms=OAUTHBEARER";
    refused(bearer, "has no keys");
    let url = "sasl.oauthbearer.jwks.endpoint.url";
    refused(
        &format!("{bearer}\n{url}=http://issuer/keys"),
        "neither an https: nor a file: URL",
    );
    for (key, value) in [
        ("sasl.oauthbearer.clock.skew.seconds", "601"),
        ("sasl.oauthbearer.jwks.endpoint.refresh.ms", "10"),
        (
            "oauthbearer.sasl.jaas.config",
            "some.Module required a=hunter2;",
        ),
    ] {
        refused(
            &format!("{bearer}\n{url}=file:///k\nlistener.name.sasl_ssl.{key}={value}"),
            key,
        );
    }
    refused(
        "connections.max.reauth.ms=soon",
        "connections.max.reauth.ms",
    );
    refused(
        "listener.security.protocol.map=SASL_SSL:TLS",
        "names no security protocol",
    );
    let module =
        "listener.name.sasl_ssl.plain.sasl.jaas.config=some.Module required user_a=hunter2;";
    refused(
        &format!("sasl.enabled.mechanisms=PLAIN\n{module}"),
        "is not the module",
    );
}

/// They had no effect: nobody can sign in under such a name.
#[test]
fn users_of_plain_have_names_that_can_sign_in() {
    let listener = "listeners=SASL_PLAINTEXT://127.0.0.1:1\nsasl.enabled.mechanisms=PLAIN";
    let module = "listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required";
    legal(&format!("{listener}\n{module} user_millrace=hunter2;"));
    for user in ["__millrace", "__millrace_other", "ANONYMOUS"] {
        let errors = errors(&format!("{listener}\n{module} user_{user}=hunter2;"));
        assert!(errors[0].contains("has no legal name"), "{errors:?}");
        assert!(!errors[0].contains("hunter2"), "{errors:?}");
    }
}

#[test]
fn the_control_plane_signs_in_without_tls_on_loopback_only() {
    for (host, legal) in [("127.0.0.1", true), ("localhost", true), ("0.0.0.0", false)] {
        let text = format!(
            "listeners=SASL_PLAINTEXT://{host}:1\nadvertised.listeners=SASL_PLAINTEXT://h:1\n\
             sasl.enabled.mechanisms=SCRAM-SHA-512\nadmin.token.file=/token\nadmin.sasl.enabled=true"
        );
        match config(&text) {
            Ok(_) => assert!(legal, "{host}"),
            Err(errors) => {
                let error = errors[0].to_string();
                let named = error.contains("at the listener SASL_PLAINTEXT without TLS");
                assert!(named && !legal, "{host}: {error}");
            }
        }
    }
}

#[test]
fn who_may_do_what() {
    const CLASS: &str = "authorizer.class.name";
    assert!(legal("").authorizer.is_none());
    let standard =
        format!("{CLASS}=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=");
    let config = legal(&format!(
        "{standard}User:admin; User:CN=ops,O=Example;\nallow.everyone.if.no.acl.found=true"
    ));
    let authorizer = config.authorizer.expect("configured");
    let users: Vec<&str> = authorizer
        .super_users
        .iter()
        .map(Principal::as_str)
        .collect();
    assert_eq!(users.len(), 2);
    assert!(users.contains(&"User:admin") && users.contains(&"User:CN=ops,O=Example"));
    assert!(authorizer.allow_if_no_rule);
    let defaults = legal(&standard).authorizer.expect("configured");
    assert_eq!(defaults, AuthorizerConfig::default());
    for (text, named) in [
        (
            format!("{CLASS}=kafka.security.authorizer.AclAuthorizer"),
            CLASS,
        ),
        (format!("{standard}admin"), "super.users"),
        (format!("{standard}User:__millrace"), "super.users"),
        ("super.users=User:admin".to_owned(), CLASS),
        ("allow.everyone.if.no.acl.found=true".to_owned(), CLASS),
    ] {
        let errors = errors(&text);
        assert!(errors[0].starts_with(named), "{text}: {errors:?}");
    }
}

#[test]
fn delegation_tokens_need_a_secret_key_which_is_not_shown() {
    const KEY: &str = "delegation.token.secret.key";
    assert!(legal("").delegation.is_none());
    let times = "delegation.token.max.lifetime.ms=3000\ndelegation.token.expiry.time.ms=2000\n\
                 delegation.token.expiry.check.interval.ms=1000";
    assert!(legal(times).delegation.is_none());
    let config = legal(&format!("{KEY}=a key of twenty bytes\n{times}"));
    let shown = format!("{config:?}");
    assert!(!shown.contains("twenty bytes"), "{shown}");
    let tokens = config.delegation.expect("enabled");
    let seconds = [
        tokens.max_lifetime,
        tokens.expiry_time,
        tokens.check_interval,
    ];
    assert_eq!(seconds.map(|time| time.as_secs()), [3, 2, 1]);
    let defaults = legal(&format!("{KEY}=a key of twenty bytes")).delegation;
    let defaults = defaults.expect("enabled");
    let seconds = [
        defaults.max_lifetime,
        defaults.expiry_time,
        defaults.check_interval,
    ];
    assert_eq!(seconds.map(|time| time.as_secs()), [604_800, 86_400, 3_600]);
    for (text, named) in [
        (format!("{KEY}=too short"), KEY),
        (
            "delegation.token.expiry.time.ms=0".to_owned(),
            "delegation.token.expiry.time.ms",
        ),
    ] {
        let errors = errors(&text);
        assert!(
            errors[0].starts_with(named) && !errors[0].contains("too short"),
            "{errors:?}"
        );
    }
}
