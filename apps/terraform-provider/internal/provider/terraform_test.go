package provider_test

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millrace/terraform-provider-millrace/internal/provider"
)

// terraform talks to the provider as Terraform does: by its protocol, one call after the other.
type terraform struct {
	t         *testing.T
	ctx       context.Context
	server    tfprotov6.ProviderServer
	schemas   map[string]*tfprotov6.Schema
	ephemeral map[string]*tfprotov6.Schema
}

// object is a configuration; what is absent is null.
type object map[string]any

// unknown stands for a value that another resource will give.
var unknown = struct{}{}

// instance is what a state holds of a resource.
type instance struct {
	value   tftypes.Value
	private []byte
}

// planned is what a plan says of a resource.
type planned struct {
	value    tftypes.Value
	private  []byte
	replaces bool
	said     string
	failed   bool
}

func newTerraform(t *testing.T, endpoint string) *terraform {
	t.Helper()
	server, err := providerserver.NewProtocol6WithError(provider.New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	tf := &terraform{t: t, ctx: t.Context(), server: server}
	got, err := server.GetProviderSchema(tf.ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	tf.schemas, tf.ephemeral = got.ResourceSchemas, got.EphemeralResourceSchemas
	config := tf.build(got.Provider.ValueType(), object{"endpoint": endpoint, "api_key": "mrk_test", "max_retries": 3, "requests_per_second": 1000})
	configured, err := server.ConfigureProvider(tf.ctx, &tfprotov6.ConfigureProviderRequest{Config: tf.pack(config)})
	tf.mustPass(configured.Diagnostics, err)
	return tf
}

// change plans and applies a configuration, and fails the test where either fails.
func (tf *terraform) change(kind string, prior *instance, config object) *instance {
	tf.t.Helper()
	plan := tf.plan(kind, prior, config)
	if plan.failed || plan.replaces {
		tf.t.Fatalf("plan: replaces %v, %s", plan.replaces, plan.said)
	}
	after, said, failed := tf.apply(kind, prior, config, plan)
	if failed {
		tf.t.Fatal(said)
	}
	return after
}

// plan of a change; a nil configuration is a plan that destroys.
func (tf *terraform) plan(kind string, prior *instance, config object) planned {
	tf.t.Helper()
	request := &tfprotov6.PlanResourceChangeRequest{
		TypeName: kind, PriorState: tf.pack(tf.valueOf(kind, prior)),
		Config: tf.pack(tf.config(kind, config)), ProposedNewState: tf.pack(tf.proposed(kind, prior, config)),
	}
	if prior != nil {
		request.PriorPrivate = prior.private
	}
	answer, err := tf.server.PlanResourceChange(tf.ctx, request)
	if err != nil {
		tf.t.Fatal(err)
	}
	said, failed := spoken(answer.Diagnostics)
	plan := planned{private: answer.PlannedPrivate, replaces: len(answer.RequiresReplace) > 0, said: said, failed: failed}
	if answer.PlannedState != nil {
		plan.value = tf.unpack(kind, answer.PlannedState)
	}
	return plan
}

// apply of a plan. As Terraform does, it refuses what differs from the plan without an error.
func (tf *terraform) apply(kind string, prior *instance, config object, plan planned) (*instance, string, bool) {
	tf.t.Helper()
	answer, err := tf.server.ApplyResourceChange(tf.ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: kind, PriorState: tf.pack(tf.valueOf(kind, prior)), PlannedState: tf.pack(plan.value),
		Config: tf.pack(tf.config(kind, config)), PlannedPrivate: plan.private,
	})
	if err != nil {
		tf.t.Fatal(err)
	}
	said, failed := spoken(answer.Diagnostics)
	after := tf.unpack(kind, answer.NewState)
	if !failed {
		tf.mustAgree(kind, plan.value, after)
	}
	if after.IsNull() {
		return nil, said, failed
	}
	return &instance{value: after, private: answer.Private}, said, failed
}

// mustAgree is Terraform's own check ("Provider produced inconsistent result after apply").
func (tf *terraform) mustAgree(kind string, plan, after tftypes.Value) {
	tf.t.Helper()
	if plan.IsNull() || after.IsNull() {
		if plan.IsNull() != after.IsNull() {
			tf.t.Errorf("%s: planned %v, applied %v", kind, plan, after)
		}
		return
	}
	was, is := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	_, _ = plan.As(&was), after.As(&is)
	for name, value := range was {
		if value.IsFullyKnown() && !value.Equal(is[name]) {
			tf.t.Errorf("inconsistent result: %s.%s was planned as %v and is %v", kind, name, value, is[name])
		}
	}
}

// destroy plans and applies the end of a resource.
func (tf *terraform) destroy(kind string, prior *instance) (string, bool) {
	tf.t.Helper()
	plan := tf.plan(kind, prior, nil)
	if plan.failed {
		return plan.said, true
	}
	_, said, failed := tf.apply(kind, prior, nil, plan)
	return said, failed
}

// refresh reads, and fails the test where that fails; nil where the resource left the state.
func (tf *terraform) refresh(kind string, prior *instance) (*instance, string) {
	tf.t.Helper()
	after, said, failed := tf.read(kind, prior)
	if failed {
		tf.t.Fatal(said)
	}
	return after, said
}

func (tf *terraform) read(kind string, prior *instance) (*instance, string, bool) {
	tf.t.Helper()
	answer, err := tf.server.ReadResource(tf.ctx, &tfprotov6.ReadResourceRequest{TypeName: kind, CurrentState: tf.pack(prior.value), Private: prior.private})
	if err != nil {
		tf.t.Fatal(err)
	}
	said, failed := spoken(answer.Diagnostics)
	value := tf.unpack(kind, answer.NewState)
	if value.IsNull() {
		return nil, said, failed
	}
	return &instance{value: value, private: answer.Private}, said, failed
}

// validate tells what is wrong with a configuration by itself; nothing is planned.
func (tf *terraform) validate(kind string, config object) (string, bool) {
	tf.t.Helper()
	answer, err := tf.server.ValidateResourceConfig(tf.ctx, &tfprotov6.ValidateResourceConfigRequest{TypeName: kind, Config: tf.pack(tf.config(kind, config))})
	if err != nil {
		tf.t.Fatal(err)
	}
	return spoken(answer.Diagnostics)
}

// imported is what an import finds; nil with what it says where it finds nothing.
func (tf *terraform) imported(kind, id string) (*instance, string) {
	tf.t.Helper()
	answer, err := tf.server.ImportResourceState(tf.ctx, &tfprotov6.ImportResourceStateRequest{TypeName: kind, ID: id})
	if err != nil {
		tf.t.Fatal(err)
	}
	said, failed := spoken(answer.Diagnostics)
	if failed || len(answer.ImportedResources) == 0 {
		return nil, said
	}
	found := answer.ImportedResources[0]
	return &instance{value: tf.unpack(kind, found.State), private: found.Private}, said
}

// changes tells whether the plan differs from what is there.
func (p planned) changes(prior *instance) bool { return !p.value.Equal(prior.value) }

// knows tells whether the plan says what the attribute will be.
func (p planned) knows(t *testing.T, name string) bool {
	t.Helper()
	values := map[string]tftypes.Value{}
	if err := p.value.As(&values); err != nil {
		t.Fatal(err)
	}
	return values[name].IsKnown()
}

func (i *instance) text(t *testing.T, name string) string {
	t.Helper()
	values := map[string]tftypes.Value{}
	var text string
	if err := i.value.As(&values); err != nil {
		t.Fatal(err)
	}
	if err := values[name].As(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func (tf *terraform) typeOf(kind string) tftypes.Type {
	schema, ok := tf.schemas[kind]
	if !ok {
		tf.t.Fatalf("no resource %s", kind)
	}
	return schema.ValueType()
}

func (tf *terraform) valueOf(kind string, prior *instance) tftypes.Value {
	if prior == nil {
		return tftypes.NewValue(tf.typeOf(kind), nil)
	}
	return prior.value
}

func (tf *terraform) config(kind string, config object) tftypes.Value {
	if config == nil {
		return tftypes.NewValue(tf.typeOf(kind), nil)
	}
	return tf.build(tf.typeOf(kind), config)
}

// proposed is the configuration with what the API had filled in before, as Terraform proposes it.
func (tf *terraform) proposed(kind string, prior *instance, config object) tftypes.Value {
	value := tf.config(kind, config)
	if prior == nil || config == nil {
		return value
	}
	was, is := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	_, _ = prior.value.As(&was), value.As(&is)
	for _, attribute := range tf.schemas[kind].Block.Attributes {
		if attribute.Computed && is[attribute.Name].IsNull() {
			is[attribute.Name] = was[attribute.Name]
		}
	}
	return tftypes.NewValue(tf.typeOf(kind), is)
}

func (tf *terraform) build(kind tftypes.Type, given any) tftypes.Value {
	tf.t.Helper()
	if given == unknown {
		return tftypes.NewValue(kind, tftypes.UnknownValue)
	}
	fields, isObject := given.(object)
	if !isObject {
		return tftypes.NewValue(kind, given)
	}
	values := map[string]tftypes.Value{}
	switch kind := kind.(type) {
	case tftypes.Object:
		for name, field := range kind.AttributeTypes {
			values[name] = tf.build(field, fields[name])
		}
	case tftypes.Map:
		for name, value := range fields {
			values[name] = tf.build(kind.ElementType, value)
		}
	default:
		tf.t.Fatalf("no object: %v", kind)
	}
	return tftypes.NewValue(kind, values)
}

func (tf *terraform) pack(value tftypes.Value) *tfprotov6.DynamicValue {
	tf.t.Helper()
	packed, err := tfprotov6.NewDynamicValue(value.Type(), value)
	if err != nil {
		tf.t.Fatal(err)
	}
	return &packed
}

func (tf *terraform) unpack(kind string, packed *tfprotov6.DynamicValue) tftypes.Value {
	tf.t.Helper()
	value, err := packed.Unmarshal(tf.typeOf(kind))
	if err != nil {
		tf.t.Fatal(err)
	}
	return value
}

func (tf *terraform) mustPass(diagnostics []*tfprotov6.Diagnostic, err error) {
	tf.t.Helper()
	if said, failed := spoken(diagnostics); failed || err != nil {
		tf.t.Fatal(said, err)
	}
}

// spoken is what the diagnostics say, and whether an error is among them.
func spoken(diagnostics []*tfprotov6.Diagnostic) (said string, failed bool) {
	var text strings.Builder
	for _, each := range diagnostics {
		text.WriteString(each.Severity.String() + ": " + each.Summary + ": " + each.Detail + "\n")
		failed = failed || each.Severity == tfprotov6.DiagnosticSeverityError
	}
	return text.String(), failed
}
