//! Credentials, quotas, access control lists, delegation tokens and configurations of groups and of client metrics: each change is kept whole, or not at all.

use millrace_meta::{
    AclRow, DelegationTokenChange, DelegationTokenRow, QuotaChange, QuotaEntityRow, QuotaRow,
    ResourceConfigChange, ResourceConfigRow, ScramChange, ScramRow,
};

use super::Store;

pub(super) async fn credentials_are_kept(store: Store) {
    let row = |user: &str, mechanism, iterations| ScramRow {
        user: user.to_owned(),
        mechanism,
        iterations,
        salt: vec![0, 255],
        stored_key: vec![1; 32],
        server_key: vec![2; 32],
    };
    let put = |user, mechanism, iterations| ScramChange::Put(row(user, mechanism, iterations));
    let first = vec![put("b", 1, 4_096), put("a", 2, 4_096), put("a", 1, 4_096)];
    store.change_scram_credentials(first).await.expect("kept");
    let remove = |user: &str| ScramChange::Remove {
        user: user.to_owned(),
        mechanism: 2,
    };
    let second = vec![put("b", 1, 8_192), remove("a"), remove("nobody")];
    store.change_scram_credentials(second).await.expect("kept");
    let kept = store.scram_credentials().await.expect("asked");
    assert_eq!(kept, [row("a", 1, 4_096), row("b", 1, 8_192)]);
    let refused = vec![put("c", 1, 4_096), put("c", 3, 4_096)];
    assert!(store.change_scram_credentials(refused).await.is_err());
    assert_eq!(store.scram_credentials().await.expect("asked"), kept);
}

pub(super) async fn quotas_are_kept(store: Store) {
    let entity = |user: Option<&str>, client_id: Option<&str>| QuotaEntityRow {
        user: user.map(str::to_owned),
        client_id: client_id.map(str::to_owned),
        ip: None,
    };
    let row = |entity: QuotaEntityRow, value| QuotaRow {
        entity,
        key: "k".to_owned(),
        value,
    };
    let (whole, default) = (entity(Some("a"), None), entity(Some("a"), Some("")));
    let put = |entity: &QuotaEntityRow, value| QuotaChange::Put(row(entity.clone(), value));
    let remove = |entity: &QuotaEntityRow| QuotaChange::Remove {
        entity: entity.clone(),
        key: "k".to_owned(),
    };
    let other = entity(None, Some("a"));
    let first = vec![put(&whole, 1.0), put(&default, 2.5), put(&other, 3.0)];
    store.change_client_quotas(first).await.expect("kept");
    let second = vec![
        put(&whole, 4.0),
        remove(&other),
        remove(&entity(None, None)),
    ];
    store.change_client_quotas(second).await.expect("kept");
    let kept = store.client_quotas().await.expect("asked");
    assert_eq!(kept, [row(whole, 4.0), row(default, 2.5)]);
    let refused = vec![put(&other, 1.0), put(&other, 0.0)];
    assert!(store.change_client_quotas(refused).await.is_err());
    assert_eq!(store.client_quotas().await.expect("asked"), kept);
}

pub(super) async fn acls_are_kept(store: Store) {
    let row = |principal: &str, operation| AclRow {
        resource_type: 2,
        resource_name: "orders".to_owned(),
        pattern_type: 3,
        principal: principal.to_owned(),
        host: "*".to_owned(),
        operation,
        permission: 3,
    };
    let kept = async || {
        let mut rows = store.acls().await.expect("asked");
        rows.sort_by(|a, b| (&a.principal, a.operation).cmp(&(&b.principal, b.operation)));
        rows
    };
    let first = vec![row("User:a", 3), row("User:b", 3), row("User:a", 3)];
    store.change_acls(first, Vec::new()).await.expect("kept");
    let removed = vec![row("User:b", 3), row("User:c", 3)];
    store
        .change_acls(vec![row("User:a", 4)], removed)
        .await
        .expect("kept");
    let expected = [row("User:a", 3), row("User:a", 4)];
    assert_eq!(kept().await, expected);
    let refused = vec![row("User:d", 3), row("User:d", 99)];
    assert!(store.change_acls(refused, Vec::new()).await.is_err());
    assert_eq!(kept().await, expected, "all or none");
}

pub(super) async fn delegation_tokens_are_kept(store: Store) {
    let row = |id: &str, expires_ms| DelegationTokenRow {
        id: id.to_owned(),
        owner: "User:a".to_owned(),
        requester: "User:b".to_owned(),
        renewers: vec!["User:\"c\"\n".to_owned(), "User:d".to_owned()],
        issued_ms: 1,
        max_ms: 1_000,
        expires_ms,
    };
    let put = |id, expires_ms| DelegationTokenChange::Put(row(id, expires_ms));
    let remove = |id: &str| DelegationTokenChange::Remove(id.to_owned());
    let first = vec![put("two", 10), put("one", 10)];
    store.change_delegation_tokens(first).await.expect("kept");
    let second = vec![put("two", 20), remove("one"), remove("none"), put("z", 5)];
    store.change_delegation_tokens(second).await.expect("kept");
    let kept = store.delegation_tokens().await.expect("asked");
    assert_eq!(kept, [row("two", 20), row("z", 5)]);
    let refused = vec![remove("z"), put("late", 1_001)];
    assert!(store.change_delegation_tokens(refused).await.is_err());
    let still = store.delegation_tokens().await.expect("asked");
    assert_eq!(still, kept, "all or none");
}

pub(super) async fn resource_configs_are_kept(store: Store) {
    const CLIENT_METRICS: i8 = 16;
    const GROUP: i8 = 32;
    let row = |resource_type, resource: &str, name: &str, value: &str| ResourceConfigRow {
        resource_type,
        resource_name: resource.to_owned(),
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let put = |resource_type, resource, name, value| {
        ResourceConfigChange::Put(row(resource_type, resource, name, value))
    };
    let remove = |resource_type, resource: &str, name: &str| ResourceConfigChange::Remove {
        resource_type,
        resource_name: resource.to_owned(),
        name: name.to_owned(),
    };
    let first = vec![
        put(GROUP, "b", "y", "1"),
        put(GROUP, "b", "x", "2"),
        put(GROUP, "a", "y", "3"),
        put(CLIENT_METRICS, "b", "metrics", ""),
    ];
    store.change_resource_configs(first).await.expect("kept");
    let second = vec![
        put(GROUP, "b", "y", "4"),
        remove(GROUP, "a", "y"),
        remove(GROUP, "none", "y"),
        remove(CLIENT_METRICS, "b", "x"),
    ];
    store.change_resource_configs(second).await.expect("kept");
    let kept = store.resource_configs().await.expect("asked");
    let expected = [
        row(CLIENT_METRICS, "b", "metrics", ""),
        row(GROUP, "b", "x", "2"),
        row(GROUP, "b", "y", "4"),
    ];
    assert_eq!(kept, expected);
    for refused in [put(GROUP, "", "x", "1"), put(2, "topic", "x", "1")] {
        let changes = vec![remove(GROUP, "b", "x"), refused];
        assert!(store.change_resource_configs(changes).await.is_err());
        let still = store.resource_configs().await.expect("asked");
        assert_eq!(still, kept, "all or none");
    }
}
