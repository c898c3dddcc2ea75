package handlers

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kbroker/kbroker/protocol"
)

// DescribeCluster, versions 0 to 2. The cluster is this broker, which is also its controller; there are no endpoints of controllers.

// The kinds of endpoints that DescribeCluster may be asked for.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// describeCluster answers who the cluster and its brokers are.
func (h *Handlers) describeCluster(r *protocol.Request, q *kmsg.DescribeClusterRequest) protocol.Response {
	a := kmsg.NewPtrDescribeClusterResponse()
	a.Version = q.Version
	a.EndpointType = endpointBrokers
	a.ControllerID = -1
	a.ClusterAuthorizedOperations = noOperations
	a.Brokers = []kmsg.DescribeClusterResponseBroker{}
	if err := checkEndpointType(q); err != nil {
		a.ErrorCode, a.ErrorMessage = int16(codeOf(err)), textOf(err)
		return reply(r, a)
	}
	a.ClusterID = h.Meta.ClusterID()
	a.ControllerID = h.NodeID
	if q.IncludeClusterAuthorizedOperations {
		a.ClusterAuthorizedOperations = clusterOperations
	}
	if host, port, ok := h.Endpoints(r.Conn.Listener); ok {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = h.NodeID, host, port, h.Rack
		a.Brokers = append(a.Brokers, b)
	}
	return reply(r, a)
}

// checkEndpointType refuses what isn't the brokers' endpoints. Below version 1 nothing else can be asked for.
func checkEndpointType(q *kmsg.DescribeClusterRequest) error {
	switch {
	case q.Version == 0 || q.EndpointType == endpointBrokers:
		return nil
	case q.EndpointType == endpointControllers:
		return &wireError{
			protocol.MismatchedEndpointType,
			"The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
		}
	default:
		return &wireError{protocol.UnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", q.EndpointType)}
	}
}
