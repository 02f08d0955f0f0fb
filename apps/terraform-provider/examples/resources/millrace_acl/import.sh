terraform import millrace_acl.audit 'clu_01JEXAMPLE|User:*|topic|audit.|prefixed|write|deny|*'
