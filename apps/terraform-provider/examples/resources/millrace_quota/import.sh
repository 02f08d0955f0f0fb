terraform import millrace_quota.alice 'clu_01JEXAMPLE|alice|'
terraform import millrace_quota.app 'clu_01JEXAMPLE|alice|app'
