package main

import (
	"fmt"
	"io/fs"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

type fileView struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Size     int64  `json:"size"`
	Mode     string `json:"mode"` // octal permission bits
	Modified string `json:"modified"`
	Target   string `json:"target,omitempty"`
}

func (a *app) sessionLsCommand() *cobra.Command {
	var long, asJSON, recursive bool
	cmd := &cobra.Command{
		Use: "ls [-l] NAME [PATH]", Short: "List files of a session", Args: wantArgs(1, 2),
		Long: "List the files of a folder of a session; a relative PATH is below /workspace. To a terminal, names with\n" +
			"control characters are shown in quotes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			_, s, err := a.openSession(ctx, cmd, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			dir := "."
			if len(args) == 2 {
				dir = args[1]
			}
			infos, err := listOrStat(cmd, s.Files(), dir, recursive)
			if err != nil {
				return sessionError(args[0], fmt.Errorf("%s: %w", dir, err))
			}
			return a.printFiles(infos, long, asJSON)
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "with type, permissions, size and time")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "everything below")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list of objects")
	return cmd
}

// listOrStat lists a folder, or tells about a single file.
func listOrStat(cmd *cobra.Command, files skerry.Files, path string, recursive bool) ([]skerry.FileInfo, error) {
	info, err := files.Stat(cmd.Context(), path)
	if err != nil {
		return nil, err
	}
	if info.Type != skerry.Directory {
		info.Path = path
		return []skerry.FileInfo{info}, nil
	}
	return files.List(cmd.Context(), path, skerry.ListOptions{Recursive: recursive})
}

func (a *app) printFiles(infos []skerry.FileInfo, long, asJSON bool) error {
	if asJSON {
		views := make([]fileView, 0, len(infos))
		for _, i := range infos {
			views = append(views, fileView{i.Path, string(i.Type), i.Size, fmt.Sprintf("%04o", i.Mode), stamp(i.Modified), i.Target})
		}
		return a.printJSON(views)
	}
	show := func(name string) string { return name }
	if a.isTerminal(a.stdout) {
		show = quoteControl
	}
	if !long {
		var b strings.Builder
		for _, i := range infos {
			b.WriteString(show(i.Path) + "\n")
		}
		_, err := a.stdout.Write([]byte(b.String()))
		return err
	}
	return a.table(func(w *tabwriter.Writer) {
		for _, i := range infos {
			name := quoteControl(i.Path)
			if i.Type == skerry.SymbolicLink {
				name += " -> " + quoteControl(i.Target)
			}
			fmt.Fprintf(w, "%s%s\t%d\t%s\t%s\n", typeLetter(i.Type), fs.FileMode(i.Mode).Perm().String()[1:], i.Size, stamp(i.Modified), name)
		}
	})
}

func typeLetter(t skerry.FileType) string {
	switch t {
	case skerry.RegularFile:
		return "-"
	case skerry.Directory:
		return "d"
	case skerry.SymbolicLink:
		return "l"
	}
	return "?"
}

// quoteControl quotes a name that a terminal would not show as it is.
func quoteControl(name string) string {
	if oneLine(name) == name {
		return name
	}
	return fmt.Sprintf("%q", name)
}
