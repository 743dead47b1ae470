//go:build linux

package proof

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/skerry-run/skerry/test/cluster/clustertest"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tries asks the API server whether it would take the pod.
func tries(n *clustertest.Namespace, pod *corev1.Pod) error {
	_, err := n.Client.CoreV1().Pods(n.Name).Create(n.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// A restricted namespace refuses a privileged pod and takes a restricted one; a
// namespace without the label takes both.
func TestPodSecurity(t *testing.T) {
	restricted, open := clustertest.New(t, clustertest.Restricted), clustertest.New(t, nil)
	privileged := clustertest.Pod("p", clustertest.Bash, "true")
	privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	if err := tries(restricted, privileged); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("privileged in a restricted namespace: %v", err)
	}
	if err := tries(restricted, clustertest.Pod("r", clustertest.Bash, "true")); err != nil {
		t.Errorf("restricted in a restricted namespace: %v", err)
	}
	if err := tries(open, privileged); err != nil {
		t.Errorf("privileged in a namespace without a level: %v", err)
	}
}

// A ValidatingAdmissionPolicy refuses what it says, where it is bound, until it
// is gone.
func TestValidatingAdmissionPolicy(t *testing.T) {
	n, other := clustertest.New(t, nil), clustertest.New(t, nil)
	name := "proof-" + n.Name
	policies, bindings := n.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), n.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = bindings.Delete(ctx, name, metav1.DeleteOptions{})
		_ = policies.Delete(ctx, name, metav1.DeleteOptions{})
	})
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.name != 'forbidden'", Message: "this name is taken by the proof"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.Name}}},
		},
	}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	forbidden := clustertest.Pod("forbidden", clustertest.Bash, "true")
	n.Wait("the policy to hold", func(context.Context) error {
		if err := tries(n, forbidden); err == nil || !strings.Contains(err.Error(), "taken by the proof") {
			return fmt.Errorf("it said %v", err)
		}
		return nil
	})
	if err := tries(n, clustertest.Pod("allowed", clustertest.Bash, "true")); err != nil {
		t.Errorf("another name: %v", err)
	}
	if err := tries(other, forbidden); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	if err := bindings.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Wait("the policy to be gone", func(context.Context) error { return tries(n, forbidden) })
}
