// A server made with the MCP Go SDK, over TLS on a loopback port that it prints.
//
//	server CERT KEY [json]
//
// Streamable HTTP is at /mcp, HTTP with SSE at /sse. It ends when its standard input closes.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoInput struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type sumInput struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

type sumOutput struct {
	Sum float64 `json:"sum"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
}

func sum(_ context.Context, _ *mcp.CallToolRequest, in sumInput) (*mcp.CallToolResult, sumOutput, error) {
	return nil, sumOutput{Sum: in.A + in.B}, nil
}

func slow(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	for i := range 5 {
		token := req.Params.GetProgressToken()
		if token != nil {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(i), Total: 5,
			})
		}
		time.Sleep(300 * time.Millisecond)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "slow"}}}, nil, nil
}

func newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "go", Version: "1"}, nil)
	no := false
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &no}
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Annotations: readOnly}, echo)
	mcp.AddTool(server, &mcp.Tool{Name: "sum", Annotations: readOnly}, sum)
	mcp.AddTool(server, &mcp.Tool{Name: "slow", Annotations: readOnly}, slow)
	mcp.AddTool(server, &mcp.Tool{Name: "write"}, echo)
	return server
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: server CERT KEY [json]")
	}
	options := &mcp.StreamableHTTPOptions{JSONResponse: strings.Join(os.Args[3:], "") == "json"}
	server := newServer()
	pick := func(*http.Request) *mcp.Server { return server }
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(pick, options))
	mux.Handle("/sse", mcp.NewSSEHandler(pick, nil))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.ServeTLS(listener, mux, os.Args[1], os.Args[2]))
}
