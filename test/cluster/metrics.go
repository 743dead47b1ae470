//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/kubernetes"
)

// hasMetrics says why the list at path has no figures yet.
func hasMetrics(ctx context.Context, client kubernetes.Interface, path string) error {
	data, err := client.Discovery().RESTClient().Get().AbsPath(path).Timeout(pollTimeout).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	return nil
}
