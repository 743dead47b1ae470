// Command metrics-server is the metrics server with descriptions of its types
// under the names that the libraries of Kubernetes 1.37 ask for. The release
// has them under those of older libraries, and would have to be built with
// these, which no other part shares.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/pkg/version"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app/options"
	"sigs.k8s.io/metrics-server/pkg/api"
	"sigs.k8s.io/metrics-server/pkg/api/generated/openapi"
)

func main() {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:           "metrics-server",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), opts)
		},
	}
	flags := opts.Flags()
	for _, set := range flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	if err := cmd.ExecuteContext(genericapiserver.SetupSignalContext()); err != nil {
		fmt.Fprintln(os.Stderr, "metrics-server: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts *options.Options) error {
	if opts.ShowVersion {
		_, err := fmt.Println(version.Get().GitVersion)
		return err
	}
	if errs := opts.Validate(); len(errs) > 0 {
		return errs[0]
	}
	config, err := opts.ServerConfig()
	if err != nil {
		return err
	}
	names := openapinamer.NewDefinitionNamer(api.Scheme)
	v2, v3 := config.Apiserver.OpenAPIConfig.Info, config.Apiserver.OpenAPIV3Config.Info
	config.Apiserver.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, names)
	config.Apiserver.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, names)
	config.Apiserver.OpenAPIConfig.Info, config.Apiserver.OpenAPIV3Config.Info = v2, v3
	server, err := config.Complete()
	if err != nil {
		return err
	}
	return server.RunUntil(ctx.Done())
}

// definitions are the release's, under both names: a type that does not know
// its new one is still asked for by the old.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	old := openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return ref(util.ToRESTFriendlyName(path)) })
	all := make(map[string]common.OpenAPIDefinition, 2*len(old))
	for name, definition := range old {
		for i, dependency := range definition.Dependencies {
			definition.Dependencies[i] = util.ToRESTFriendlyName(dependency)
		}
		all[name] = definition
		all[util.ToRESTFriendlyName(name)] = definition
	}
	return all
}
