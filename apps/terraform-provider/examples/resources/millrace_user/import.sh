terraform import millrace_user.alice clu_01JEXAMPLE/alice
terraform import millrace_user.alice production/orders/alice
